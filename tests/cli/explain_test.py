"""explain: parts that add up, what binds, and changes that help as they are said to."""
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

FITS = ["mixtral_8x7b", "-c", "p5", "--nodes", "8", "--batch", "64", "--seq", "8192"]
TOO_LARGE = ["llama3_70b", "-c", "p5", "--nodes", "8", "--batch", "64", "--seq", "8192"]
HOPELESS = ["llama3_70b", "-c", "p5", "--nodes", "1", "--batch", "8", "--seq", "8192"]
DUALPIPE = ["deepseek_v3", "-c", "hgx-h800,stack=megatron-core-dualpipe", "--devices", "2048", "--batch", "15360", "--seq", "4096"]


def plan_text(plan):
    return ",".join(f"{key}={value}" for key, value in plan.items() if key not in ("batch", "dp", "optimizer"))


class Explain(ProgramTest):
    def test_parts_add_up_and_none_is_negative(self):
        for question, plan in ((FITS, "ep=8,tp=8"), (TOO_LARGE, "zero=3"), (DUALPIPE, "pp=16,ep=64,schedule=dualpipe"), (DUALPIPE, "pp=8,ep=32,schedule=dualpipe,recompute=full")):
            with self.subTest(plan=plan):
                said = run_json("explain", *question, "--plan", plan)
                self.assertAlmostEqual(sum(said["time"].values()) / said["step_seconds"], 1, delta=1e-9)
                self.assertGreaterEqual(min(said["time"].values()), 0)
                heaviest = said["memory"]["stages"][said["heaviest_stage"]]
                self.assertAlmostEqual(heaviest["sum"] / said["memory_bytes"], 1, delta=1e-9)

    def test_what_binds(self):
        self.assertEqual(run_json("explain", *FITS, "--plan", "ep=8,tp=8")["binds"], "compute")
        self.assertEqual(run_json("explain", *TOO_LARGE, "--plan", "zero=3")["binds"], "memory")
        across = run_json("explain", "mixtral_8x7b", "-c", "p5,nic=0.05x", "--nodes", "8", "--batch", "64", "--seq", "8192", "--plan", "ep=8,tp=8")
        self.assertEqual((across["binds"], across["binds_level"]), ("network", "efa"))

    def test_a_change_does_what_it_is_said_to_do(self):
        for question, plan in ((FITS, "ep=8,tp=8"), (TOO_LARGE, "zero=3"), (HOPELESS, "zero=1")):
            said = run_json("explain", *question, "--plan", plan)
            self.assertGreater(len(said["changes"]), 0)
            for change in said["changes"]:
                with self.subTest(plan=plan, change=change["change"]):
                    changed = run_json("explain", *question, "--plan", plan_text(change["plan"]))
                    self.assertAlmostEqual(changed["step_seconds"], change["step_seconds"])
                    self.assertEqual(changed["fits"], change["fits"])
                    if said["fits"]:
                        self.assertLess(changed["step_seconds"], said["step_seconds"])
                    else:
                        self.assertLess(changed["memory_with_reserve_bytes"], said["memory_with_reserve_bytes"])
        self.assertTrue(all(c["fits"] for c in run_json("explain", *TOO_LARGE, "--plan", "zero=3")["changes"]))
        self.assertFalse(any(c["fits"] for c in run_json("explain", *HOPELESS, "--plan", "zero=1")["changes"]))


if __name__ == "__main__":
    main()
