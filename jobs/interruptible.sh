#!/usr/bin/env bash
# Sourced by the Slurm and PBS scripts.

# Runs a command so that the scheduler's USR1 or TERM reaches it while it works; returns its exit code.
# A shell that runs a command in the foreground sees its signals only after the command has ended, so it runs in
# the background; `wait` returns early when a signal arrives, while the command is still finishing what it has.
run_interruptible() {
  "$@" </dev/null &
  local child=$! code=0
  # shellcheck disable=SC2064  # the process id of now is meant
  trap "kill -USR1 $child 2>/dev/null" USR1 TERM
  while true; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break
  done
  trap - USR1 TERM
  return "$code"
}
