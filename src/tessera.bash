# Bash completion of tessera. Commands and options are read from the program's own --help, so this file never
# falls behind it; names of presets come from `tessera presets --json`.
_tessera_commands() {
  "$1" --help 2>/dev/null | sed -n '/^Subcommands:/,$p' | sed -nE 's/^  ([a-z][a-z-]*) {2,}[^ ].*$/\1/p'
}

_tessera_options() {
  "$@" --help 2>/dev/null | grep -oE '(^|[ ,])--?[a-zA-Z][a-zA-Z0-9-]*' | tr -d ' ,' | sort -u
}

_tessera_presets() {  # program, kind
  "$1" presets --kind "$2" --json 2>/dev/null | sed -nE 's/.*"name": *"([^"]+)".*/\1/p'
}

_tessera() {
  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before="" command="" i
  [ "$COMP_CWORD" -gt 0 ] && before=${COMP_WORDS[COMP_CWORD - 1]}
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in -*) ;; *) command=${COMP_WORDS[i]}; break ;; esac
  done
  COMPREPLY=()
  local words=""
  if [ -z "$command" ]; then
    words="$(_tessera_commands "$program") --help --version"
  else
    case $before in
      -a | --architecture) words=$(_tessera_presets "$program" architectures) ;;
      -c | --cluster) words=$(_tessera_presets "$program" fabrics) ;;
      --law) words=$(_tessera_presets "$program" laws) ;;
      *) case $word in -*) words=$(_tessera_options "$program" "$command") ;; esac ;;
    esac
  fi
  [ -n "$words" ] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  # Anything else is a file: the `default` of `complete` below.
  return 0
}
complete -o default -F _tessera tessera
