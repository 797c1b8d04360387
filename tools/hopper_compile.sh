#!/bin/bash
# A compiler launcher for kernels with products of warpgroups: hopper_compile.sh COMPILER ARGUMENT... fails where the
# assembler only notes that it lets each product wait for the one before, which makes a kernel take twice as long.
# Builds that are compiled fast have such notes of their own, and do not run.
[[ " $* " == *" --Ofast-compile"* ]] && exec "$@"
notes=$("$@" 2>&1)
result=$?
[ -z "$notes" ] || echo "$notes" >&2
if [ $result -eq 0 ] && grep -q "wgmma.mma_async instructions are serialized" <<<"$notes"; then
  echo "hopper_compile: error: these products must not be serialized: mend what the assembler says of registers" >&2
  for ((i = 1; i < $#; ++i)); do
    if [ "${!i}" = -o ]; then j=$((i + 1)) && rm -f "${!j}"; fi
  done
  exit 1
fi
exit $result
