"""The report as its reader meets it: one file without a link to anywhere, the sweep's own numbers in it, and in
headless Chromium every chart has marks, filters change them, nothing is logged as an error and nothing is requested."""
import re
import shutil
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FIGURES = {"certainty", "budget", "loss", "loss-sparsity", "mfu-sparsity", "split", "mesh", "time", "memory", "points"}
LARGEST_PAGE = 5e6  # bytes
SLOWEST_START = 2000  # ms until every chart is drawn

# Runs before the page's own script: keeps what goes wrong.
WATCH = """<script>window.trouble = [];
addEventListener("error", (e) => trouble.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => trouble.push("rejection: " + e.reason));
addEventListener("securitypolicyviolation", (e) => trouble.push("request: " + e.blockedURI));
for (const kind of ["error", "warn"]) { const old = console[kind]; console[kind] = (...words) => { trouble.push(kind + ": " + words.join(" ")); old(...words); }; }
</script>"""

# Runs after it: looks, changes every filter, looks again, and leaves what it saw in the page.
VISIT = """<script>(async () => {
const complete = async () => { while (!document.documentElement.dataset.complete) await new Promise((r) => setTimeout(r, 10)); };
const hash = (text) => { let h = 7; for (const c of text) h = (31 * h + c.codePointAt(0)) % 9007199254740881 % 281474976710597; return String(h); };
const look = async () => { await complete(); return Object.fromEntries([...document.querySelectorAll("figure")].map((f) => {
  const paths = [...f.querySelectorAll(".chart svg path")].filter((p) => !["none", "transparent", null].includes(p.getAttribute("fill")));
  return [f.id.replace("figure-", ""), { marks: paths.length, rows: +f.querySelector(".chart").dataset.marks, table: f.querySelectorAll("tbody tr").length,
    text: f.querySelector("figcaption p").textContent, label: f.querySelector(".chart").getAttribute("aria-label"), drawn: hash(paths.map((p) => p.getAttribute("d") + p.getAttribute("transform")).join() + f.querySelector(".chart svg").textContent) }];
})); };
const change = (id, index) => { const s = document.getElementById(id); s.selectedIndex = index; s.dispatchEvent(new Event("change")); };
const seen = { ready: +document.documentElement.dataset.ready };
await complete();
for (const d of document.querySelectorAll("figure details")) d.open = true;
await new Promise((r) => setTimeout(r, 200));
seen.start = await look(); seen.answer = document.getElementById("answer").innerText;
change("cluster", 1); seen.cluster = await look(); seen.clusterAnswer = document.getElementById("answer").innerText;
change("days", 1); seen.days = await look(); seen.daysAnswer = document.getElementById("answer").innerText; seen.hash = location.hash;
change("map", 1); seen.map = (await look()).mesh;
change("cluster", 0); change("days", 0); seen.back = await look();
document.getElementById("theme").click(); seen.dark = document.documentElement.dataset.theme; seen.background = getComputedStyle(document.body).backgroundColor; seen.darkLook = await look();
seen.hover = {};
for (const id of ["loss", "budget", "mesh", "time", "points", "certainty"]) {
  const box = document.getElementById("chart-" + id);
  echarts.getInstanceByDom(box).dispatchAction({ type: "showTip", seriesIndex: 0, dataIndex: 0 });
  seen.hover[id] = [...box.children].map((e) => e.innerText || "").join(" ");
}
seen.requests = performance.getEntriesByType("resource").map((e) => e.name);
seen.trouble = trouble;
const out = document.createElement("pre"); out.id = "seen"; out.textContent = JSON.stringify(seen); document.body.append(out);
})();</script>"""


def page_data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1))


class Report(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="tessera-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.answer = run_json("sweep", SMALL, "--out", cls.folder / "out", "--top", "1000")
        cls.path = cls.folder / "report.html"
        done = run("report", cls.folder / "out" / "results.h5", "-o", cls.path)
        if "no chart library" in done.stderr:
            raise unittest.SkipTest("this build has no chart library (jobs/install-chart-library.sh)")
        assert done.returncode == DONE, done.stderr
        cls.page = cls.path.read_text()
        cls.data = page_data(cls.page)

    def test_one_small_file_without_links(self):
        self.assertLess(len(self.page.encode()), LARGEST_PAGE)
        markup = re.sub(r"<script>.*?</script>|<script type.*?</script>|<style>.*?</style>|<pre>.*?</pre>", "", self.page, flags=re.DOTALL)
        self.assertNotRegex(markup, r"(src|href|action)=")
        self.assertIn("default-src 'none'", markup)
        for licence in ("Apache License", "BSD 3-Clause", "Copyright"):
            self.assertIn(licence, self.page)
        self.assertFalse(list(self.folder.glob("*.tmp")))

    def test_same_file_same_page(self):
        again = self.dir / "again.html"
        answer = run_json("report", self.folder / "out" / "results.h5", "-o", again)
        self.assertEqual(again.read_text(), self.page)
        self.assertEqual(answer["bytes"], len(self.page.encode()))

    def test_rows_are_the_sweeps(self):
        top = {}
        for row in self.answer["top"]:
            top.setdefault((row["cluster"]["nodes"], row["window_days"]), []).append(row)
        self.assertEqual(len(self.data["envelopes"]), len(top))
        for e in self.data["envelopes"]:
            rows = top[(self.data["clusters"][e["cluster"]]["nodes"], e["days"])]
            self.assertEqual(len(rows), e["ranked"])
            self.assertEqual(len(rows), len(e["rows"]["loss"]))
            for i, row in enumerate(rows):
                for key, value in (("loss", row["loss"]), ("mfu", 100 * row["mfu"]), ("goodput", 100 * row["goodput"]), ("tokens", row["tokens"]), ("flops", row["model_flops"]),
                                   ("step", row["step_seconds"]), ("memory", row["memory_with_reserve_bytes"])):
                    self.assertAlmostEqual(e["rows"][key][i] / value, 1, delta=2e-3, msg=key)
                self.assertEqual(e["rows"]["batch"][i], row["plan"]["batch"])

    def test_words_that_people_read(self):
        self.assertEqual({c["device_title"] for c in self.data["clusters"]}, {"NVIDIA B200 SXM6 180 GB"})
        self.assertEqual(self.data["facts"]["goodput"]["name"], "constant")
        study = self.write("tuned.toml", SMALL.read_text().replace("[window]\n", "[window]\ngoodput = \"tuned\"\n"))
        run_json("sweep", study, "--out", self.dir / "tuned")
        run("report", self.dir / "tuned" / "results.h5", "-o", self.dir / "tuned.html")
        data = page_data((self.dir / "tuned.html").read_text())
        self.assertEqual((data["facts"]["goodput"]["name"], data["facts"]["goodput"]["modelled"]), ("tuned", True))
        self.assertTrue(all(80 < g < 100 for e in data["envelopes"] for g in e["rows"]["goodput"]))

    def test_parts_add_up(self):
        for e in self.data["envelopes"]:
            self.assertGreater(len(e["breakdowns"]), 0)
            for i, b in enumerate(e["breakdowns"]):
                self.assertAlmostEqual(sum(b["seconds"].values()) / b["step_seconds"], 1, delta=1e-3)
                self.assertAlmostEqual(b["step_seconds"] / e["rows"]["step"][i], 1, delta=1e-3)
                self.assertAlmostEqual(sum(b["bytes"].values()) / b["memory_with_reserve_bytes"], 1, delta=1e-3)
                self.assertLessEqual(b["memory_with_reserve_bytes"], b["capacity_bytes"])
                self.assertGreaterEqual(min(b["seconds"].values()), 0)
        p = self.data["points"]
        refused = {r["reason"]: r["points"] for r in p["refused"]}
        self.assertEqual(p["points"], sum(n for r, n in refused.items() if r != "memory") + p["evaluations"])
        self.assertEqual(p["evaluations"], p["feasible"] + refused.get("memory", 0))

    def test_maps_hold_the_best_plan(self):
        for e in self.data["envelopes"]:
            self.assertGreater(len(e["maps"]), 0)
            for m in e["maps"]:
                cells = self.data["maps"][m["map"]]["cells"]
                best = max(c[2] for c in cells if c[2] is not None)
                self.assertAlmostEqual(best / e["rows"]["mfu"][m["row"]], 1, delta=2e-3)
                self.assertEqual(len({(c[0], c[1]) for c in cells}), len(cells))
        self.assertTrue(any(c[2] is None for m in self.data["maps"] for c in m["cells"]), "nothing is red: choose a harder study")

    def test_certainty_is_a_distribution(self):
        for e in self.data["envelopes"]:
            c = e["certainty"]
            self.assertLessEqual(sum(r["probability"] for r in c["rows"]), 1 + 1e-6)
            self.assertGreater(sum(r["probability"] for r in c["rows"]), 0.9)
            self.assertTrue(all(r["regret"] >= c["regret"] for r in c["rows"]))
            self.assertIn(c["choice"], [r["row"] for r in c["rows"]])
            self.assertGreaterEqual(c["near_ties"], 1)

    def test_bad_input(self):
        for path, words in ((self.dir / "missing.h5", "no such file"), (SMALL, "HDF5")):
            done = run("report", path, "-o", self.dir / "x.html")
            self.assertEqual(done.returncode, BAD_INPUT)
            self.assertIn(words, done.stderr)
        done = run("report", self.folder / "out" / "results.h5", "-o", self.dir / "no" / "such" / "x.html")
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertEqual(list(self.dir.iterdir()), [])

    def chromium(self, page, *options, timeout=120):
        if not CHROMIUM:
            self.skipTest("chromium is missing (jobs/install-packages.sh browser)")
        return subprocess.run([CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                               "--no-first-run", "--window-size=1300,900", f"--user-data-dir={self.dir / 'profile'}", "--enable-logging=stderr", "--v=0",
                               *options, page.as_uri()], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, errors="replace")

    def visit(self):
        page = self.dir / "visited.html"
        text = self.page.replace("<body>", "<body>" + WATCH, 1)
        head, tail = text.rsplit("</body>", 1)
        page.write_text(head + VISIT + "</body>" + tail)
        done = self.chromium(page, "--virtual-time-budget=20000", "--dump-dom")
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
        self.assertTrue(found, done.stderr[-3000:])
        for line in done.stderr.splitlines():
            self.assertNotIn("CONSOLE", line)
        import html
        return json.loads(html.unescape(found.group(1)))

    def test_in_a_browser(self):
        seen = self.visit()
        self.assertEqual(seen["trouble"], [])
        self.assertEqual(seen["requests"], [])
        self.assertGreater(seen["ready"], 0)
        self.assertLess(seen["ready"], SLOWEST_START)
        for look in ("start", "cluster", "days", "back", "darkLook"):
            self.assertEqual(set(seen[look]), FIGURES)
            for name, figure in seen[look].items():
                self.assertGreater(figure["rows"], 0, name)
                self.assertGreaterEqual(figure["marks"], min(figure["rows"], 150), f"{look} {name}: fewer marks than rows")
                self.assertEqual(figure["table"], figure["rows"], name)
                self.assertGreater(len(figure["text"]), 40, name)
                self.assertIn(figure["text"], figure["label"])
        # Filters change the charts: all but those of the whole study (the budget and the refused points).
        for name in FIGURES - {"budget", "points"}:
            self.assertNotEqual(seen["start"][name]["drawn"], seen["cluster"][name]["drawn"], f"{name} does not follow the cluster")
        for name in ("certainty", "loss", "loss-sparsity"):  # MFU and plans do not depend on the window
            self.assertNotEqual(seen["cluster"][name]["drawn"] + seen["cluster"][name]["text"], seen["days"][name]["drawn"] + seen["days"][name]["text"],
                                f"{name} does not follow the window")
        for name in FIGURES:
            self.assertEqual(seen["start"][name]["drawn"], seen["back"][name]["drawn"], name)
        self.assertNotEqual(seen["map"]["text"], seen["days"]["mesh"]["text"])
        self.assertEqual(seen["hash"], "#cluster=1&days=20")
        self.assertEqual(len({seen["answer"], seen["clusterAnswer"], seen["daysAnswer"]}), 3)
        self.assertIn("16 nodes", seen["clusterAnswer"])
        self.assertEqual(seen["dark"], "dark")
        self.assertEqual(seen["background"], "rgb(18, 21, 27)")
        self.assertIn("micro-batch", seen["hover"]["loss"])
        self.assertIn("micro-batch", seen["hover"]["budget"])
        self.assertIn("micro-batch", seen["hover"]["mesh"])
        self.assertIn("micro-batch", seen["hover"]["time"])
        self.assertIn("refused here", seen["hover"]["points"])
        self.assertIn("expected regret", seen["hover"]["certainty"])

    def test_prints(self):
        pdf = self.dir / "report.pdf"
        self.chromium(self.path, f"--print-to-pdf={pdf}", "--no-pdf-header-footer", "--virtual-time-budget=10000")
        self.assertTrue(pdf.read_bytes().startswith(b"%PDF"))
        self.assertGreater(pdf.stat().st_size, 50_000)


if __name__ == "__main__":
    main()
