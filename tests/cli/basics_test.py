"""Help, version and usage errors: what a user sees first."""
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

COMMANDS = ["sweep", "estimate", "plan", "explain", "count", "loss", "table", "lookup", "fit", "validate", "calibrate",
            "report", "export", "replay", "merge", "query", "presets"]


class Basics(ProgramTest):
    def test_every_command_of_the_design_is_listed(self):
        self.assertLessEqual(set(COMMANDS), set(listed_commands()))

    def test_help_of_every_command_shows_an_example(self):
        for name in listed_commands():
            with self.subTest(command=name):
                done = run(name, "--help")
                self.assertEqual(done.returncode, DONE, done.stderr)
                self.assertIn("tessera " + name, done.stdout, "no example")

    def test_version_names_build_mpi_and_hdf5(self):
        done = run("--version")
        self.assertEqual(done.returncode, DONE)
        self.assertRegex(done.stdout, r"^tessera \d+\.\d+\.\d+\n")
        for word in ("build", "compiler", "MPI", "HDF5"):
            self.assertRegex(done.stdout, rf"(?m)^{word} +\S+")

    def test_usage_errors_exit_2_and_print_nothing_on_stdout(self):
        for arguments in [[], ["nonsense"], ["sweep"], ["sweep", SMALL], ["presets", "--nonsense"], ["plan", "-a"],
                          ["count", "--json"], ["sweep", SMALL, "--out", self.dir / "x", "--threads", "-3"],
                          ["sweep", SMALL, "--out", self.dir / "x", "--threads", "many"],
                          ["sweep", SMALL, "--out", self.dir / "x", "--record", "some"],
                          ["sweep", SMALL, "--out", self.dir / "x", "--top", "0"],
                          ["sweep", SMALL, "--out", self.dir / "x", "--resume", "--redo"]]:
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertNotEqual(done.stderr, "")
                self.assertFalse((self.dir / "x").exists(), "wrote something")


if __name__ == "__main__":
    main()
