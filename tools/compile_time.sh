#!/bin/bash
# A compiler launcher (CUDAEP_COMPILE_TIMES): compile_time.sh LOG COMPILER ARGUMENT... runs the compiler and appends
# "CPU-MILLISECONDS OBJECT" to LOG. The time is that of the compiler and its children, whatever else the machine does.
log=$1
shift
object=-
arguments=("$@")
for ((i = 0; i < $#; ++i)); do
  if [ "${arguments[i]}" = -o ]; then object=${arguments[i + 1]}; fi
done
TIMEFORMAT='%3U %3S'
exec 3>&2 4>&1
spent=$({ time "$@" 2>&3 1>&4; } 2>&1) || exit
read -r user system <<<"$spent"
echo "$((10#${user/./} + 10#${system/./})) $object" >>"$log"
