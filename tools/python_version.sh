# Shell function, to be sourced: find_python prints the first Python 3.11 or 3.12 that runs ($PYTHON first), or fails.
find_python() {
  for candidate in ${PYTHON:-} python3 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}
