#!/bin/sh
# Creates a virtual environment with pip: tools/venv.sh DIRECTORY
#
# The interpreter is $PYTHON (default: python3). If python3 is too old, it is the newest
# versioned interpreter on the PATH. An environment that works is left unchanged.
set -eu

target=$1
python=${PYTHON:-python3}

say() { echo "betimes: $*" >&2; }

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if recent "$target/bin/python" && "$target/bin/python" -m pip --version >/dev/null 2>&1; then
    exit 0
fi

if ! recent "$python"; then
    found=$("$python" --version 2>&1) || found="nothing that runs"
    chosen=
    if [ "$python" = python3 ]; then
        for candidate in python3.14 python3.13 python3.12 python3.11; do
            if recent "$candidate"; then
                chosen=$candidate
                break
            fi
        done
    fi
    if [ -z "$chosen" ]; then
        say "betimes needs Python 3.11 or newer, but $python is: $found."
        say "Install a newer Python, or name one that you have: make PYTHON=/path/to/python3.12 ..."
        exit 1
    fi
    say "$python is: $found; using $chosen instead."
    python=$chosen
fi

# Debian and its relatives ship Python without ensurepip, which venv needs.
has_venv() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }

if ! has_venv; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "$python cannot create virtual environments; installing $package (about 20 seconds)"
        apt-get update -qq >&2
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2
    fi
    if ! has_venv; then
        say "$python cannot create virtual environments: its modules venv and ensurepip are missing."
        say "On Debian or Ubuntu run: sudo apt-get update && sudo apt-get install $package"
        say "Then run make again, or name another Python: make PYTHON=/path/to/python3 ..."
        exit 1
    fi
fi

if [ -e "$target/pyvenv.cfg" ]; then
    say "the environment in $target no longer works; creating it again"
fi
say "creating a virtual environment in $target with $("$python" --version 2>&1)"
"$python" -m venv --clear "$target"
