"""table and lookup: one sweep of a small study with two clusters, then budgets in every form."""
import csv
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

STUDY = """
title = "Two clusters"
[cluster]
preset = ["dgx-h100", "nvl72"]
devices = [64, 128]
[window]
days = [5, 10]
[batch]
global = [512]
sequence = 2048
[architecture]
q = [4, 6, 8]
experts = [8, 32, 64]
top_k = [1, 2]
split = [2, 4]
[plan]
tp = [1, 2]
cp = [1]
etp = [1]
virtual_stages = [1]
micro_batch = [1, 4]
recompute = ["selective", "full"]
zero = [1]
schedule = ["1f1b"]
precision = ["bf16"]
[law]
name = "mosaic"
tokens_per_active_parameter = [20, 300]
[output]
record = "best"
"""


class Table(ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tessera-table-")
        cls.addClassCleanup(folder.cleanup)
        cls.shared = Path(folder.name)
        (cls.shared / "study.toml").write_text(STUDY)
        cls.results = cls.shared / "swept" / "results.h5"
        done = run("sweep", cls.shared / "study.toml", "--search", "pruned", "--out", cls.shared / "swept", "-q")
        assert done.returncode == DONE, done.stderr
        cls.answer = run_json("table", cls.results, "-o", cls.shared / "t.h5", "-o", cls.shared / "t.json",
                              "--csv", cls.shared / "t.csv")

    def refused(self, *arguments, words=()):
        done = run(*arguments)
        self.assertEqual(done.returncode, BAD_INPUT, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for word in words:
            self.assertIn(word, done.stderr)

    def test_one_row_for_each_budget(self):
        keys = [(r["cluster"], r["devices"], r["days"]) for r in self.answer["rows"]]
        self.assertEqual(sorted(keys), sorted((c, d, w) for c in ("dgx-h100", "nvl72") for d in (64, 128) for w in (5, 10)))
        with open(self.shared / "t.csv") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), len(keys))
        for row, line in zip(self.answer["rows"], lines):
            self.assertEqual(line["name"], row["name"])
            self.assertEqual(float(line["loss_nats"]), row["loss"])
            for of_split in row["by_split"]:
                self.assertEqual(line[f"split_{of_split['split']:g}"], of_split["name"])
                self.assertEqual(float(line[f"split_{of_split['split']:g}_loss_nats"]), of_split["loss"])

    def test_lookup_of_a_row_is_the_row_from_both_files(self):
        for row in self.answer["rows"]:
            budget = ["--cluster", row["cluster"], "--nodes", row["nodes"], "--days", row["days"]]
            stored = run_json("lookup", self.shared / "t.h5", *budget)
            drawn = run_json("lookup", self.shared / "t.json", *budget)
            self.assertEqual(stored["rows"], [row])
            self.assertEqual(drawn["rows"], [row])
            self.assertEqual((stored["certainty_stored"], stored["certainty_recomputed"]), (True, False))
            self.assertEqual((drawn["certainty_stored"], drawn["certainty_recomputed"]), (False, True))

    def test_other_budgets_are_drawn_again(self):
        budget = ["--cluster", "nvl72", "--devices", 96, "--days", 7.5]
        first, second = (run_json("lookup", self.shared / name, *budget) for name in ("t.h5", "t.json"))
        self.assertTrue(first["certainty_recomputed"])
        self.assertTrue(first["rows"][0]["interpolated"])
        self.assertEqual(first, second)
        fast = run_json("lookup", self.shared / "t.h5", *budget, "--fast")
        self.assertEqual((fast["certainty_stored"], fast["certainty_recomputed"]), (False, False))
        self.assertIsNone(fast["rows"][0]["probability_best"])

    def test_the_content_decides_how_a_table_is_read(self):
        for name, other in (("t.h5", "a.json"), ("t.json", "b.h5")):
            (self.dir / other).write_bytes((self.shared / name).read_bytes())
            run_json("lookup", self.dir / other, "--cluster", "nvl72", "--devices", 64, "--days", 5)

    def test_money_energy_and_hours_are_windows(self):
        budget = ["--cluster", "dgx-h100", "--nodes", 8, "--fast"]
        for option, amount, rate in [("--usd", 64 * 24 * 7.5 * 2.5, ["--price", "2.5"]),
                                     ("--usd", 64 * 24 * 7.5 * 2, ["--price", "h100=2,gb200=4"]),
                                     ("--mwh", 64 * 24 * 7.5 * 1e-3, ["--joules", "3.6e6"]),
                                     ("--device-hours", 64 * 24 * 7.5, [])]:
            row = run_json("lookup", self.shared / "t.h5", *budget, option, amount, *rate)["rows"][0]
            self.assertAlmostEqual(row["days"], 7.5, places=9)
        priced = run_json("lookup", self.shared / "t.h5", *budget, "--usd", 1e5)
        self.assertAlmostEqual(priced["rows"][0]["usd"], 1e5, places=4)
        self.assertRegex(priced["notes"][0], r"\d{4}-\d\d-\d\d")  # the date of the price

    def test_spares_stops_and_limits(self):
        budget = ["lookup", self.shared / "t.h5", "--cluster", "dgx-h100", "--nodes", 8, "--days", 10]
        plain = run_json(*budget)["rows"][0]
        terms = run_json(*budget, "--spare-nodes", 1, "--stopped-days", 1)
        self.assertTrue(terms["certainty_recomputed"])
        row = terms["rows"][0]
        self.assertEqual(row["device_hours"], 72 * 240)
        self.assertEqual(row["terms"]["spare_nodes"], 1)
        nine = run_json(*budget[:-1], 9)["rows"][0]
        self.assertEqual(row["loss"], nine["loss"])
        limit = plain["non_embedding"]["active"] - 1
        limited = run_json(*budget, "--max-active", limit)["rows"][0]
        self.assertLessEqual(limited["non_embedding"]["active"], limit)
        self.assertGreater(limited["left_out"]["over_limits"], 0)
        memory = run_json(*budget, "--max-serving-memory", "20 GB")["rows"][0]
        self.assertEqual(memory["serving"]["weights_bytes"], 2 * memory["all"]["total"])
        self.assertEqual(memory["serving"]["caches_bytes"], 0)
        self.assertLessEqual(memory["serving"]["total_bytes"], 20e9)
        served = run_json(*budget, "--serving-weights", "fp8", "--serving-cache", "fp8", "--serving-context", 4096,
                          "--serving-batch", 8)["rows"][0]
        arch = served["architecture"]
        self.assertEqual(served["serving"]["weights_bytes"], served["all"]["total"])
        self.assertEqual(served["serving"]["caches_bytes"], 8 * 4096 * arch["layers"] * 2 * arch["kv_heads"] * arch["head_dim"])
        self.refused(*budget, "--serving-batch", 8, words=["--serving-context"])
        self.refused(*budget, "--serving-weights", "fp7", words=["did you mean 'fp8'"])
        self.refused(*budget, "--max-total", "-1", words=["--max-total", "none"])
        run_json(*budget, "--max-total", 10, expect=NOTHING_FEASIBLE)

    def test_terms_of_the_study_reach_sweep_table_and_lookup(self):
        study = STUDY.replace('devices = [64, 128]', 'devices = [64, 128]\nspare_nodes = 1').replace(
            'days = [5, 10]', 'days = [6, 11]\nstopped_days = 1') + """
[serving]
max_total_parameters = 20e9
max_memory = "30 GB"
weights = "fp8"
cache = "fp8"
context = 8192
batch = 16
"""
        done = run_json("sweep", self.write("terms.toml", study), "--search", "pruned", "--out", self.dir / "swept", "-q")
        self.assertEqual(done["terms"]["spare_nodes"], 1)
        self.assertTrue(all(e["over_limits"] > 0 for e in done["envelopes"]))
        for row in done["top"]:
            self.assertLessEqual(row["serving"]["total_bytes"], 30e9)
            self.assertLessEqual(row["non_embedding"]["total"], 20e9)
        table = run_json("table", self.dir / "swept" / "results.h5", "-o", self.dir / "t.h5", "-o", self.dir / "t.json")
        options = ["--spare-nodes", 1, "--stopped-days", 1, "--max-total", "20e9", "--max-serving-memory", "30 GB",
                   "--serving-weights", "fp8", "--serving-cache", "fp8", "--serving-context", 8192, "--serving-batch", 16]
        by_options = run_json("table", self.results, "--days", "6,11", *options)
        self.assertEqual(table["rows"], by_options["rows"])
        for row in table["rows"]:
            best = next(r for r in done["top"] if r["cluster"]["devices"] == row["devices"]
                        and r["window_days"] == row["days"] and r["cluster"]["name"] == row["cluster"])
            self.assertEqual(row["nominal_best"]["loss"], best["loss"])
            for name in ("t.h5", "t.json"):
                answer = run_json("lookup", self.dir / name, "--cluster", row["cluster"], "--nodes", row["nodes"], "--days", row["days"])
                self.assertEqual(answer["rows"], [row])
        lifted = run_json("lookup", self.dir / "t.h5", "--cluster", "nvl72", "--nodes", 16, "--days", 6, "--stopped-days", 0,
                          "--spare-nodes", 0, "--max-total", "none", "--max-serving-memory", "none")["rows"][0]
        self.assertEqual(lifted["left_out"]["over_limits"], 0)

    def test_a_long_json_table_is_read(self):
        path = self.dir / "long.json"
        path.write_bytes((self.shared / "t.json").read_bytes() + b" " * (70 << 20))  # blanks are JSON too
        run_json("lookup", path, "--cluster", "nvl72", "--nodes", 16, "--days", 5, "--fast")

    def test_goodput_in_place_of_the_study_s(self):
        half = run_json("table", self.results, "--cluster", "nvl72", "--devices", 64, "--days", 10, "--goodput", 0.5)
        whole = run_json("table", self.results, "--cluster", "nvl72", "--devices", 64, "--days", 5)
        self.assertEqual(half["rows"][0]["loss"], whole["rows"][0]["loss"])
        self.assertEqual(half["rows"][0]["goodput"], 0.5)

    def test_the_batch_penalty_says_that_it_is_off(self):
        for row in self.answer["rows"]:
            notes = [w for w in row["extrapolation"]["warnings"] if "batch" in w]
            self.assertTrue(all(n.startswith("note: the batch penalty is off; ") for n in notes), notes)

    def test_clusters_are_compared(self):
        comparison = self.answer["comparison"]
        self.assertEqual(len(comparison), 4)
        for entry in comparison:
            first, other = entry["clusters"]
            self.assertEqual((first["cluster"], other["cluster"]), ("dgx-h100", "nvl72"))
            self.assertTrue(first["first_choice"]["same"])
            self.assertEqual(entry["first"], first["name"])
        equal = run_json("table", self.results, "--devices", 64, "--usd", 5e4)
        for row in equal["rows"]:
            self.assertAlmostEqual(row["usd"], 5e4, places=4)
        text = run("table", self.results).stdout
        self.assertIn("How the optimum moves", text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)

    def test_what_cannot_be_answered(self):
        table = self.shared / "t.h5"
        one = ["--cluster", "nvl72", "--nodes", 16, "--days", 5]
        self.refused("lookup", table, "--nodes", 8, "--days", 5, words=["--cluster", "nvl72"])
        self.refused("lookup", table, "--cluster", "nvl7", "--nodes", 16, "--days", 5, words=["did you mean 'nvl72'"])
        self.refused("lookup", table, *one[:-2], words=["--days", "--usd"])
        self.refused("lookup", table, "--days", 5, words=["--nodes", "--devices"])
        self.refused("lookup", table, *one, "--usd", 5, words=["give one of them"])
        self.refused("lookup", table, *one, "--devices", 64, words=["give one of them"])
        self.refused("lookup", table, *one, "--price", "h10=3", words=["did you mean 'h100'"])
        self.refused("lookup", table, *one[:2], "--devices", 65, "--days", 5, words=["whole nodes"])
        self.refused("lookup", table, *one, "--stopped-days", 5, words=["nothing would be trained"])
        self.refused("lookup", self.results, *one, words=["results of a sweep", "tessera table"])
        self.refused("lookup", self.dir / "none.h5", *one, words=["no such file"])
        self.refused("lookup", self.dir, *one, words=["folder"])
        self.refused("lookup", self.write("x.json", "{}"), *one, words=["no table of tessera", "tessera table"])
        self.refused("lookup", self.write("x.h5", b"\x89HDF\r\n\x1a\n and no more"), *one, words=["no table", "tessera table"])
        self.refused("lookup", self.write("cut.h5", table.read_bytes()[:20000]), *one, words=["damaged", "tessera table"])
        self.refused("table", table, words=["no results of tessera"])
        self.refused("table", self.results, "-o", self.dir / "x.csv", words=["--csv"])
        self.refused("table", self.results, "-o", self.dir / "none" / "x.h5", words=["no folder"])
        self.assertFalse((self.dir / "x.csv").exists())
        self.refused("table", self.results, "--csv", self.dir, words=["it is a folder"])

    def test_files_that_are_links_or_devices(self):
        for name, option in (("l.json", "-o"), ("l.h5", "-o"), ("l.csv", "--csv")):
            link, target = self.dir / name, self.dir / ("of-" + name)
            target.write_text("old")
            link.symlink_to(target)
            self.assertEqual(run("table", self.results, option, link).returncode, DONE)
            self.assertTrue(link.is_symlink())
            self.assertGreater(target.stat().st_size, 3)
        # Never /dev/full itself: a program that renamed onto it would, run by root, take it from everybody.
        device = self.dir / "full"
        device.symlink_to("/dev/full")
        before = Path("/dev/full").stat().st_rdev
        for option in ("--csv", "-o"):
            self.refused("table", self.results, option, device, words=["the disk is full", str(device)])
        self.assertEqual(Path("/dev/full").stat().st_rdev, before)

    def test_the_same_bytes_again(self):
        for name in ("t.h5", "t.json"):
            run("table", self.results, "-o", self.dir / name)
            self.assertEqual((self.dir / name).read_bytes(), (self.shared / name).read_bytes())


if __name__ == "__main__":
    main()
