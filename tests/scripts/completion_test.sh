#!/usr/bin/env bash
# Bash completion offers exactly the commands and options that --help shows.
set -euo pipefail
: "${TESSERA:?}" "${TESSERA_SOURCE_DIR:?}"
# shellcheck source=../../src/tessera.bash
. "$TESSERA_SOURCE_DIR/src/tessera.bash"

complete_words() {  # the words of the line; the last one is being completed
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _tessera
  printf '%s\n' "${COMPREPLY[@]}"
}
fail() { echo "$*"; exit 1; }

commands=$("$TESSERA" --help | sed -n '/^Subcommands:/,$p' | sed -nE 's/^  ([a-z][a-z-]*) {2,}[^ ].*/\1/p')
[ -n "$commands" ] || fail "--help lists no commands"
offered=$(complete_words "$TESSERA" "")
for command in $commands; do
  grep -qx "$command" <<<"$offered" || fail "the command $command is not offered"
  options=$(complete_words "$TESSERA" "$command" --)
  grep -qx -- --help <<<"$options" || fail "$command: --help is not offered"
  while read -r option; do
    grep -qx -- "$option" <<<"$options" || fail "$command: $option is not offered"
  done < <("$TESSERA" "$command" --help | grep -oE '^  (-[a-zA-Z],)?--[a-z][a-z-]*' | grep -oE -- '--[a-z][a-z-]*')
done
[ "$(complete_words "$TESSERA" "swe")" = sweep ] || fail "swe does not become sweep"
[ "$(complete_words "$TESSERA" count -a mixtral_8x7)" = mixtral_8x7b ] || fail "-a does not offer presets"
grep -qx p6-b200 <<<"$(complete_words "$TESSERA" plan -c p6-b2)" || fail "-c does not offer presets"
grep -qx mosaic <<<"$(complete_words "$TESSERA" loss --law mosai)" || fail "--law does not offer presets"
echo "completion of $(wc -w <<<"$commands") commands"
