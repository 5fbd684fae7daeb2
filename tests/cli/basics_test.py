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
                self.assertRegex(done.stderr, r"(?s)^tessera: .+ \(.+\) .+", "not PROBLEM (WHY) WHAT TO DO")
                self.assertFalse((self.dir / "x").exists(), "wrote something")

    def test_the_nearest_word_is_offered(self):
        for arguments, word in ((["plna"], "plan"), (["plan", "llama3_8b", "--nods", "4"], "--nodes"), (["plan", "llama3_8b", "-c", "h100", "--nodes", "1", "--batch", "8", "--seq", "128"], "dgx-h100"),
                                (["export", "llama3_8b", "-f", "nemo"], "-a llama3_8b")):
            with self.subTest(arguments=arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, BAD_INPUT)
                self.assertIn(word, done.stderr)

    def test_nothing_fits_names_the_fewest_nodes(self):
        workload = ["--batch", "1024", "--seq", "4096"]
        nodes = run_json("plan", "deepseek_v3", "-c", "p5", "--nodes", "2", *workload, expect=NOTHING_FEASIBLE)["smallest_nodes"]
        self.assertGreater(run_json("plan", "deepseek_v3", "-c", "p5", "--nodes", nodes, *workload)["feasible"], 0)
        for fewer in range(nodes // 2 + 1, nodes):
            self.assertEqual(run_json("plan", "deepseek_v3", "-c", "p5", "--nodes", fewer, *workload, expect=NOTHING_FEASIBLE)["feasible"], 0)
        one = run_json("plan", "mixtral_8x7b", "-c", "p6-b200", "--devices", "1", "--batch", "8", "--seq", "4096", expect=NOTHING_FEASIBLE)
        self.assertEqual(one["smallest_nodes"], 1)


if __name__ == "__main__":
    main()
