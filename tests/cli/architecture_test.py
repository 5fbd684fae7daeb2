"""How a person names an architecture: with -a or without, as its authors spell it, two of them, none."""
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

WORKLOAD = ["-c", "p6-b200", "--nodes", "1", "--batch", "64", "--seq", "4096"]


class Architectures(ProgramTest):
    def refused(self, *arguments, word):
        done = run(*arguments)
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"(?s)tessera: .+ \(.+\) .+", "not PROBLEM (WHY) WHAT TO DO")
        self.assertIn(word, done.stderr)

    def test_a_bare_name_is_the_same_as_an_option(self):
        for command, more in (("count", []), ("plan", WORKLOAD), ("explain", WORKLOAD + ["--plan", "ep=8"])):
            with self.subTest(command=command):
                given = run_json(command, "-a", "mixtral_8x7b", *more)
                self.assertEqual(run_json(command, "mixtral_8x7b", *more), given)
                self.assertEqual(run_json(command, *more, "mixtral_8x7b"), given)

    def test_several_are_counted_in_the_order_given(self):
        names = [a["architecture"]["name"] for a in run_json("count", "llama3_8b", "olmoe_1b_7b", "-a", "mixtral_8x7b")["architectures"]]
        self.assertEqual(names, ["llama3_8b", "olmoe_1b_7b", "mixtral_8x7b"])

    def test_two_at_once_or_none_are_refused(self):
        for command in ("plan", "explain"):
            with self.subTest(command=command):
                self.refused(command, "llama3_8b", "-a", "mixtral_8x7b", *WORKLOAD, word="llama3_8b")
                self.refused(command, "llama3_8b", "--megatron", "--num-layers 2", *WORKLOAD, word="--megatron")
                self.refused(command, *WORKLOAD, word="no architecture")

    def test_spelling_of_a_name(self):
        for spelled, name in (("deepseek-v3", "deepseek_v3"), ("DeepSeek-V3", "deepseek_v3"), ("llama-3-70b", "llama3_70b"),
                              ("Mixtral-8x7B", "mixtral_8x7b"), ("mixtral-8x7b,experts=16", "mixtral-8x7b,experts=16")):
            with self.subTest(spelled=spelled):
                self.assertEqual(run_json("count", spelled)["architecture"]["name"], name)
        usual = run_json("plan", "llama3_8b", *WORKLOAD)
        self.assertEqual(run_json("plan", "llama3_8b", "-c", "P6_B200", *WORKLOAD[2:]), usual)
        self.refused("count", "deepseek-v33", word="deepseek_v3")


if __name__ == "__main__":
    main()
