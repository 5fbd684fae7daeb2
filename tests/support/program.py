"""Running the program in tests: one process or several MPI ranks, JSON on stdout, work in a folder of its own."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("TESSERA_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BUILD = pathlib.Path(os.environ.get("TESSERA_BINARY_DIR", SOURCE / "build"))
TESSERA = os.environ.get("TESSERA", str(BUILD / "tessera"))
MPIEXEC = os.environ.get("TESSERA_MPIEXEC", "mpiexec")
SMALL = SOURCE / "tests" / "cli" / "small.toml"
TINY = SOURCE / "tests" / "cli" / "tiny.toml"

DONE, FAILED, BAD_INPUT, NOTHING_FEASIBLE, INTERRUPTED = 0, 1, 2, 3, 75
SKIPPED = 77

# A scheduler's variables would change thread counts and make the program refuse to run alone.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "PBS_", "OMP_", "PMI"))}


def command(*arguments, ranks=0):
    """The command line; ranks=0 runs the program without a launcher."""
    launcher = [MPIEXEC, "-n", str(ranks)] if ranks else []
    return launcher + [TESSERA] + [str(a) for a in arguments]


def run(*arguments, ranks=0, timeout=120, environment=None, **options):
    """Runs the program to its end; returns returncode, stdout and stderr as text."""
    return subprocess.run(command(*arguments, ranks=ranks), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=timeout, env={**ENVIRONMENT, **(environment or {})}, errors="replace", **options)


def one_object(text):
    """The JSON object that `text` is, and nothing but. NaN and infinity are no JSON."""
    def refuse(constant):
        raise ValueError(f"{constant} is not JSON")
    value = json.loads(text, parse_constant=refuse)
    if not isinstance(value, dict):
        raise ValueError(f"expected one JSON object, got {type(value).__name__}")
    return value


def run_json(*arguments, expect=DONE, **options):
    """Runs with --json, checks the exit code, returns the object on stdout."""
    done = run(*arguments, "--json", **options)
    if done.returncode != expect:
        raise AssertionError(f"exit code {done.returncode}, expected {expect}: {' '.join(map(str, arguments))}\n{done.stderr}")
    try:
        return one_object(done.stdout)
    except ValueError as error:
        raise AssertionError(f"{error}: {' '.join(map(str, arguments))}\n{done.stdout[:2000]}") from error


def listed_commands():
    """The commands that --help lists."""
    return re.findall(r"^  ([a-z][a-z-]*) {2,}\S", run("--help").stdout.split("Subcommands:")[1], re.MULTILINE)


class ProgramTest(unittest.TestCase):
    """A test case with an empty folder self.dir that is removed afterwards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tessera-test-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.dir / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


def skip(message):
    print(f"skipped: {message}")
    sys.exit(SKIPPED)


def main():
    """unittest's main; a run in which everything was skipped reports itself as skipped."""
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(SKIPPED)
