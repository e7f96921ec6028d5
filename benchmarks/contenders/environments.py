"""What the contenders run in, made at first use beside this file and kept.

A Python contender has a virtual environment of its own, from a lock file with hashes, and one that
npm distributes has its `node_modules`; Kafka Streams has the jars that Maven resolves from its pom,
and is compiled with the machine's JDK.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE / ".environments"
_MADE = ".made"
_CLASSPATH = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"


class Unavailable(Exception):
    """A contender cannot run here; the message ends with the remedy."""


def python(name: str) -> Path:
    """The interpreter of an environment with what `NAME.lock` lists."""
    return python_with(name, HERE / f"{name}.lock")


def python_with(name: str, lock: Path) -> Path:
    """The interpreter of an environment with what a lock file lists."""

    def make(home: Path) -> None:
        _run([sys.executable, "-m", "venv", str(home)], "Debian: apt install python3-venv")
        _run(
            [
                str(home / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--require-hashes",
                "--disable-pip-version-check",
                "-r",
                str(lock),
            ],
            f"install what {lock.name} lists where pip reaches a package index",
        )

    return _made(name, [lock], make) / "bin" / "python"


def java() -> list[str]:
    """The command that runs `kafka_streams/Dedup.java`, as far as its class's arguments."""
    pom, source = HERE / "kafka_streams" / "pom.xml", HERE / "kafka_streams" / "Dedup.java"

    def make(home: Path) -> None:
        jars = home / "jars"
        _run(
            [
                "mvn",
                "--quiet",
                "--batch-mode",
                f"--file={pom}",
                _CLASSPATH,
                f"-Dmdep.outputFile={jars}",
            ],
            "install Maven (Debian: apt install maven), where it reaches a repository",
        )
        _run(
            ["javac", "-d", str(home), "-cp", jars.read_text(), str(source)],
            "install a JDK, 17 or newer (Debian: apt install default-jdk-headless)",
        )

    home = _made("kafka-streams", [pom, source], make)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", quiet, "-cp", f"{home}:{(home / 'jars').read_text()}"]


def node(name: str, folder: Path) -> Path:
    """The `node_modules` with what the `package-lock.json` of a folder lists."""
    listed = [folder / "package.json", folder / "package-lock.json"]

    def make(home: Path) -> None:
        for each in listed:
            shutil.copy(each, home)
        _run(
            ["npm", "ci", f"--prefix={home}", "--ignore-scripts", "--no-audit", "--no-fund"],
            "install npm (Debian: apt install npm), where it reaches a registry",
        )

    return _made(name, listed, make) / "node_modules"


def _made(name: str, sources: list[Path], make: Callable[[Path], None]) -> Path:
    """A folder that `make` filled, once for these sources and this Python."""
    content = b"".join(path.read_bytes() for path in sources) + sys.version.encode()
    home = ROOT / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    if (home / _MADE).exists():
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    print(f"preparing {name}: a minute or two, once", file=sys.stderr)
    make(home)
    (home / _MADE).touch()
    return home


def _run(command: list[str], remedy: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unavailable(f"there is no {command[0]}: {remedy}") from error
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise Unavailable(f"{command[0]} failed: {output[-600:]}\n{remedy}")
