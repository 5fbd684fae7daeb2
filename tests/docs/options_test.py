"""docs/commands.md names every command and every option of the program, and none that does not exist."""
import re
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

GLOBAL = {"--help", "--version", "--json"}


def options(name):
    return set(re.findall(r"--[a-z][a-z-]*", "\n".join(
        line for line in run(name, "--help").stdout.splitlines() if re.match(r"^  (-[a-zA-Z],)?--", line))))


def sections():
    page = (SOURCE / "docs" / "commands.md").read_text()
    parts = re.split(r"^## `tessera ([a-z-]+)`.*$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


class Options(ProgramTest):
    def test_commands(self):
        self.assertEqual(sorted(sections()), sorted(listed_commands()))

    def test_options(self):
        for name, text in sections().items():
            with self.subTest(command=name):
                table = {o for row in re.findall(r"^\| (`.*?`) \|", text, re.MULTILINE) for o in re.findall(r"--[a-z][a-z-]*", row)}
                self.assertEqual(table | GLOBAL, options(name) | GLOBAL)


if __name__ == "__main__":
    main()
