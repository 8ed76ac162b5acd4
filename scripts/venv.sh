#!/bin/sh
# Make the virtual environment $1 with the first Python 3.10+ that is there; PYTHON=... chooses another.
set -eu
venv=$1
say() { echo "$@" >&2; }

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    say "Python 3.10 or newer is needed, and none was found; install one, or name it: make PYTHON=/path/to/python3"
    exit 1
}

python=$(find_python)
rm -rf "$venv"
if "$python" -m venv "$venv" >/dev/null 2>&1; then exit 0; fi

# Debian and Ubuntu split ensurepip off.
rm -rf "$venv"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    say "installing $package"
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
    if "$python" -m venv "$venv"; then exit 0; fi
    rm -rf "$venv"
fi

# A target folder is open to pip even where the system's own packages are closed to it (PEP 668).
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
if "$python" -m pip install --quiet --target "$tools" virtualenv 2>/dev/null &&
    PYTHONPATH=$tools "$python" -m virtualenv --quiet "$venv"; then exit 0; fi
rm -rf "$venv"
say "$python can make no virtual environment: it has neither ensurepip nor pip."
say "As root, on Debian or Ubuntu: apt-get install python3-venv"
exit 1
