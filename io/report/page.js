"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const arch = data.architectures;
  const $ = (id) => document.getElementById(id);
  const GiB = 2 ** 30;

  // ------------------------------------------------------------------ words and numbers
  const escape = (s) => String(s).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
  const digits = (x, n) => (x === null || x === undefined ? "–" : Number(x).toLocaleString("en", { maximumSignificantDigits: n }));
  const fixed = (x, n) => (x === null || x === undefined ? "–" : Number(x).toFixed(n));
  const count = (x) => Number(x).toLocaleString("en");
  function big(x, n = 3) {
    for (const [unit, size] of [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]])
      if (x >= size) return digits(x / size, n) + " " + unit;
    return digits(x, n);
  }
  const percent = (x, n = 0) => (100 * x).toFixed(n) + " %";
  const gib = (bytes) => digits(bytes / GiB, 4) + " GiB";
  const power = (x, n) => {
    const e = Math.floor(Math.log10(x));
    return (n === undefined ? (x / 10 ** e).toFixed(2) : digits(x / 10 ** e, n)) + "·10" + String(e).replace(/./g, (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] || "⁻");
  };
  const days = (d) => digits(d, 4) + (d === 1 ? " day" : " days");

  // ------------------------------------------------------------------ colours
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const dark = () => document.documentElement.dataset.theme === "dark";
  // Okabe and Ito's palette: told apart by colour-blind readers, and each series has its own symbol besides.
  const palette = () => (dark() ? ["#56b4e9", "#e69f00", "#2fbf8f", "#d98cba", "#f0e442", "#ff7b45", "#9aa7ff", "#c7ced8"]
                                : ["#0072b2", "#d98200", "#008a63", "#b0598c", "#8a7d00", "#c4481d", "#5560c8", "#5a6472"]);
  const symbols = ["circle", "triangle", "rect", "diamond", "roundRect", "pin", "arrow"];
  const splits = [...new Set(arch.split)].sort((a, b) => a - b);
  const splitColor = (s) => palette()[splits.indexOf(s) % palette().length];
  const splitSymbol = (s) => symbols[splits.indexOf(s) % symbols.length];

  // ------------------------------------------------------------------ state
  const state = { cluster: 0, days: data.days[0], map: 0 };
  const clusterLabel = (c) => (data.clusters.every((o) => o.name === data.clusters[0].name) ? "" : c.name + ": ") +
    count(c.nodes) + (c.nodes === 1 ? " node" : " nodes") + " (" + count(c.devices) + " × " + c.device.toUpperCase() + ")";
  const envelope = () => data.envelopes.find((e) => e.cluster === state.cluster && e.days === state.days);
  function rowsOf(e) {
    const r = e.rows;
    return r.loss.map((loss, i) => ({ i, a: r.architecture[i], loss, flops: r.flops[i], tokens: r.tokens[i], mfu: r.mfu[i], step: r.step[i],
      memory: r.memory[i], perActive: r.per_active[i], plan: r.plan[i], batch: r.batch[i], cut: r.cut[i], goodput: r.goodput[i],
      name: arch.name[r.architecture[i]], split: arch.split[r.architecture[i]], total: arch.total[r.architecture[i]],
      active: arch.active[r.architecture[i]], sparsity: arch.sparsity[r.architecture[i]] }));
  }
  function readHash() {
    const p = new URLSearchParams(location.hash.slice(1));
    if (p.has("cluster") && data.clusters[+p.get("cluster")]) state.cluster = +p.get("cluster");
    if (p.has("days") && data.days.includes(+p.get("days"))) state.days = +p.get("days");
    if (p.get("theme") === "dark" || p.get("theme") === "light") document.documentElement.dataset.theme = p.get("theme");
  }

  const hover = (r) => `<b>${escape(r.name)}</b> · loss ${fixed(r.loss, 4)} nats<br>${big(r.total)} parameters, ${big(r.active)} active (sparsity ${digits(r.sparsity, 4)})<br>` +
    `${big(r.tokens)} tokens, ${digits(r.perActive, 3)} per active parameter${r.cut ? " (cut at the bound)" : ""}<br>${power(r.flops)} model FLOPs, MFU ${digits(r.mfu, 3)} %, goodput ${digits(r.goodput, 4)} %<br>` +
    `step ${digits(r.step, 3)} s, ${gib(r.memory)} of ${gib(data.clusters[state.cluster].memory_cap_bytes)}<br>batch ${count(r.batch)} · ${escape(r.plan)}`;

  // ------------------------------------------------------------------ building blocks
  function table(columns, rows) {
    const cell = (tag, c, text) => `<${tag}${c.text ? ' class="text"' : ""}>${text}</${tag}>`;
    return `<div class="scroll"><table><thead><tr>${columns.map((c) => cell("th", c, escape(c.name))).join("")}</tr></thead><tbody>` +
      rows.map((r) => `<tr>${columns.map((c, i) => cell("td", c, escape(r[i])))
        .join("")}</tr>`).join("") + "</tbody></table></div>";
  }
  const num = (name) => ({ name });
  const txt = (name) => ({ name, text: true });

  const figures = new Map();  // id -> {chart, build}
  function figure(id, title, options, build) {
    const el = document.createElement("figure");
    el.id = "figure-" + id;
    if (options.wide) el.className = "wide";
    el.innerHTML = `<figcaption><h2>${escape(title)}</h2><p></p></figcaption>${options.extra || ""}<div class="chart${options.tall ? " tall" : ""}" id="chart-${id}" role="img"></div>` +
      `<details><summary>As a table</summary><div class="table"></div></details>`;
    $("figures").append(el);
    figures.set(id, { el, build, title, chart: null });
  }
  // build() gives {text, option, columns, rows}; text is the chart in a sentence.
  function draw(id) {
    const f = figures.get(id);
    const made = f.build();
    f.el.querySelector("figcaption p").textContent = made.text;
    const box = f.el.querySelector(".chart");
    box.setAttribute("aria-label", f.title + ". " + made.text);
    box.dataset.marks = made.rows.length;
    if (made.height) box.style.height = made.height + "px";
    const details = f.el.querySelector("details");
    const fill = () => { f.el.querySelector(".table").innerHTML = table(made.columns, made.rows); };
    if (details.open) fill();
    else details.ontoggle = () => { fill(); details.ontoggle = null; };
    if (f.chart) f.chart.dispose();
    f.chart = echarts.init(box, null, { renderer: "svg" });
    f.chart.setOption(made.option);
    if (made.click) f.chart.on("click", made.click);
  }

  const font = () => ({ color: style("--soft"), fontFamily: getComputedStyle(document.body).fontFamily, fontSize: 12 });
  const axis = (extra) => Object.assign({ nameLocation: "middle", nameGap: 30, nameTextStyle: font(), axisLabel: Object.assign(font(), extra.axisLabel || {}),
    axisLine: { show: true, lineStyle: { color: style("--line") } }, axisTick: { lineStyle: { color: style("--line") } },
    splitLine: { lineStyle: { color: style("--grid") } } }, extra, { axisLabel: Object.assign(font(), extra.axisLabel || {}) });
  const base = (extra) => Object.assign({ animation: false, textStyle: font(), grid: { left: 62, right: 22, top: 42, bottom: 48 },
    tooltip: { backgroundColor: style("--card"), borderColor: style("--line"), textStyle: { color: style("--ink"), fontSize: 12 }, confine: true },
    legend: { top: 4, left: 0, itemWidth: 14, itemHeight: 10, textStyle: font() } }, extra);
  const range = (values, pad = 0.06) => {
    const low = Math.min(...values), high = Math.max(...values), gap = (high - low || Math.abs(high) || 1) * pad;
    return [low - gap, high + gap];
  };

  // Ticks of a logarithmic axis at 1, 2 and 5 times powers of ten.
  function logAxis(name, values, format, pad) {
    const low = Math.min(...values) / pad, high = Math.max(...values) * pad, ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e)
      for (const m of [1, 2, 5]) if (m * 10 ** e >= low && m * 10 ** e <= high) ticks.push(m * 10 ** e);
    if (ticks.length < 2) ticks.push(low * 1.01, high / 1.01);
    return axis({ type: "log", name, min: low, max: high, axisTick: { customValues: ticks }, axisLabel: { customValues: ticks, formatter: format, hideOverlap: true }, splitLine: { show: false } });
  }

  function scatterBySplit(rows, x, y, more) {
    return splits.filter((s) => rows.some((r) => r.split === s)).map((s) => Object.assign({
      name: "G = " + digits(s, 3), type: "scatter", symbol: splitSymbol(s), symbolSize: 6.5, itemStyle: { color: splitColor(s), opacity: 0.72 },
      data: rows.filter((r) => r.split === s).map((r) => ({ value: [x(r), y(r)], row: r })) }, more || {}));
  }
  const optimum = (r, x, y, position) => ({ name: "lowest loss", type: "scatter", symbol: "diamond", symbolSize: 17, z: 5,
    itemStyle: { color: style("--ink"), borderColor: style("--card"), borderWidth: 1.5 },
    label: { show: true, position: position || "bottom", distance: 8, formatter: r.name, color: style("--ink"), fontWeight: 600, textBorderColor: style("--card"), textBorderWidth: 3 },
    data: [{ value: [x(r), y(r)], row: r }] });
  const rowTip = { formatter: (p) => (p.data && p.data.row ? hover(p.data.row) : "") };
  const tip = (o) => Object.assign(base({}).tooltip, o);

  const rowColumns = [txt("architecture"), num("loss [nats]"), num("model FLOPs"), num("MFU [%]"), num("goodput [%]"), num("total"), num("active"), num("sparsity"), num("split"), num("tokens"), num("step [s]"), num("memory [GiB]"), num("batch"), txt("plan")];
  const rowCells = (r) => [r.name, fixed(r.loss, 4), power(r.flops), digits(r.mfu, 4), digits(r.goodput, 4), big(r.total, 4), big(r.active, 4), digits(r.sparsity, 4), digits(r.split, 3), big(r.tokens), digits(r.step, 4), digits(r.memory / GiB, 4), count(r.batch), r.plan];
  const nothing = (what) => ({ text: what, option: { title: { text: what, left: "center", top: "middle", textStyle: { color: style("--soft"), fontSize: 14, fontWeight: "normal" } } }, columns: [txt("")], rows: [] });
  const isEmpty = () => !envelope() || envelope().rows.loss.length === 0;
  const noModel = "No architecture can be trained within this cluster and window.";

  // ------------------------------------------------------------------ figures
  function lossFlops() {
    if (isEmpty()) return nothing(noModel);
    const rows = rowsOf(envelope()), best = rows[0];
    const x = (r) => r.flops, y = (r) => r.loss;
    return { text: `${count(rows.length)} candidates, coloured by split factor G (width of a dense FFN over that of an expert). Lowest loss: ${best.name}, ${fixed(best.loss, 4)} nats after ${power(best.flops)} model FLOPs.`,
      option: base({ tooltip: tip(rowTip), xAxis: logAxis("model FLOPs of the run (6 · active parameters · tokens)", rows.map(x), (v) => power(v, 3), 1.07),
        yAxis: axis({ type: "value", name: "predicted loss [nats per token]", nameGap: 46, min: range(rows.map(y), 0.12)[0], max: range(rows.map(y))[1], axisLabel: { formatter: (v) => v.toFixed(3), showMinLabel: false, showMaxLabel: false } }),
        series: scatterBySplit(rows, x, y).concat([optimum(best, x, y)]) }), columns: rowColumns, rows: rows.slice(0, 200).map(rowCells) };
  }

  // Bands of total over active parameters, four to a factor of ten; the best of each band carries the line.
  const bandOf = (r) => Math.round(4 * Math.log10(r.total / r.active));
  function againstSparsity(y, name, better, describe) {
    if (isEmpty()) return nothing(noModel);
    const rows = rowsOf(envelope()), best = rows[0];
    const x = (r) => r.total / r.active;
    const lines = [], cells = [];
    for (const s of splits) {
      const bands = new Map();
      for (const r of rows.filter((q) => q.split === s)) if (!bands.has(bandOf(r)) || better(r, bands.get(bandOf(r)))) bands.set(bandOf(r), r);
      const chosen = [...bands.values()].sort((a, b) => x(a) - x(b));
      if (!chosen.length) continue;
      lines.push({ name: "G = " + digits(s, 3), type: "line", symbol: "none", lineStyle: { color: splitColor(s), width: 2 }, itemStyle: { color: splitColor(s) }, data: chosen.map((r) => [x(r), y(r)]), tooltip: { show: false }, silent: true });
      for (const r of chosen) cells.push([digits(s, 3)].concat(rowCells(r)));
    }
    return { text: describe(rows, best), option: base({ tooltip: tip(rowTip),
      xAxis: logAxis("total ÷ active parameters (10: sparsity 0.9; 100: 0.99)", rows.map(x), (v) => digits(v, 2), 1.1),
      yAxis: axis({ type: "value", name, nameGap: 46, min: name.startsWith("MFU") ? 0 : range(rows.map(y), 0.16)[0], max: range(rows.map(y))[1], axisLabel: { formatter: (v) => digits(v, 4), showMinLabel: false, showMaxLabel: false } }),
      series: scatterBySplit(rows, x, y, { symbolSize: 4.5, itemStyle: undefined }).map((q) => Object.assign(q, { itemStyle: { color: splitColor(q.data[0].row.split), opacity: 0.5 } })).concat(lines, [optimum(best, x, y, name.startsWith("MFU") ? "top" : "bottom")]) }),
      columns: [num("split")].concat(rowColumns), rows: cells };
  }

  function bySplit() {
    if (isEmpty()) return nothing(noModel);
    const rows = rowsOf(envelope());
    const bests = splits.map((s) => rows.find((r) => r.split === s)).filter(Boolean);
    const names = bests.map((r) => "G = " + digits(r.split, 3));
    const panel = (index, name, values, text) => ({
      x: axis({ gridIndex: index, type: "value", name, min: 0, max: (v) => v.max * 1.22 || 1, axisLabel: { formatter: (v) => digits(v, 3), showMaxLabel: false, hideOverlap: true } }),
      y: axis({ gridIndex: index, type: "category", inverse: true, data: names, axisLabel: { show: index === 0 }, axisTick: { show: false } }),
      s: { name, type: "bar", xAxisIndex: index, yAxisIndex: index, barMaxWidth: 30, label: { show: true, position: "right", color: style("--ink"), formatter: (p) => text(p.value) },
        data: bests.map((r, k) => ({ value: values[k], row: r, itemStyle: { color: splitColor(r.split) } })) } });
    const left = panel(0, "loss above the best [millinats]", bests.map((r) => 1000 * (r.loss - rows[0].loss)), (v) => fixed(v, 1));
    const right = panel(1, "its MFU [%]", bests.map((r) => r.mfu), (v) => fixed(v, 1));
    return { height: 130 + 44 * bests.length,
      text: `The best candidate of each split factor: how far its loss lies above the best of all, and its MFU. Best: G = ${digits(rows[0].split, 3)}.`,
      option: base({ legend: { show: false }, tooltip: tip(rowTip), grid: [{ left: 62, width: "38%", top: 12, bottom: 48 }, { right: 22, width: "38%", top: 12, bottom: 48 }],
        xAxis: [left.x, right.x], yAxis: [left.y, right.y], series: [left.s, right.s] }),
      columns: rowColumns, rows: bests.map(rowCells) };
  }

  function budget() {
    const name = data.clusters[state.cluster].name;
    const sizes = data.clusters.map((c, i) => ({ c, i })).filter((o) => o.c.name === name).sort((a, b) => a.c.devices - b.c.devices);
    const cells = [];
    for (const [x, size] of sizes.entries())
      for (const [y, d] of data.days.entries()) {
        const e = data.envelopes.find((q) => q.cluster === size.i && q.days === d);
        if (!e || !e.rows.loss.length) { cells.push({ x, y, e, row: null, size }); continue; }
        cells.push({ x, y, e, row: rowsOf(e)[0], size });
      }
    const losses = cells.filter((c) => c.row).map((c) => c.row.loss);
    if (!losses.length) return nothing("No budget of this study can train any of its architectures.");
    const lowest = cells.reduce((a, b) => (b.row && (!a.row || b.row.loss < a.row.loss) ? b : a));
    const value = (c) => ({ value: [c.x, c.y, c.row ? c.row.loss : null], cell: c, label: { formatter: c.row ? `{a|${c.row.loss.toFixed(4)}}\n{b|${c.row.name}}` : "nothing fits" } });
    return { height: Math.max(240, 90 + 62 * data.days.length),
      text: `Lowest predicted loss for each cluster size and window${cells.length > 1 ? `; lowest of all: ${fixed(lowest.row.loss, 4)} nats with ${count(lowest.size.c.nodes)} nodes and ${days(lowest.e.days)} (${lowest.row.name}). Click a cell to look at it` : ""}.`,
      option: base({ legend: { show: false }, grid: { left: 84, right: 22, top: 12, bottom: 84 }, tooltip: tip({ formatter: (p) => (p.data.cell.row ? `${count(p.data.cell.size.c.nodes)} nodes, ${days(p.data.cell.e.days)}<br>` + hover(p.data.cell.row) : "nothing fits") }),
        xAxis: axis({ type: "category", data: sizes.map((s) => count(s.c.nodes)), name: "nodes", splitArea: { show: false } }), yAxis: axis({ type: "category", data: data.days.map((d) => days(d)), splitLine: { show: false } }),
        visualMap: { min: Math.min(...losses), max: Math.max(...losses) + (losses.length === 1 ? 1e-6 : 0), show: losses.length > 1, orient: "horizontal", left: "center", bottom: 2, itemHeight: 140, itemWidth: 12, text: ["loss " + Math.max(...losses).toFixed(3), Math.min(...losses).toFixed(3)], textStyle: font(), inRange: { color: dark() ? ["#1f6f8b", "#274a63", "#2b3340"] : ["#7fc3d8", "#c5e1ea", "#f2f5f7"] } },
        series: [{ type: "heatmap", data: cells.map(value), label: { show: true, color: style("--ink"), rich: { a: { fontWeight: 700, fontSize: 13, lineHeight: 19, color: style("--ink") }, b: { fontSize: 11, lineHeight: 15, color: style("--ink") } } },
          itemStyle: { borderColor: style("--card"), borderWidth: 3, borderRadius: 6 } }] }),
      click: (p) => { if (p.data && p.data.cell) select(p.data.cell.size.i, p.data.cell.e.days); },
      columns: [num("nodes"), num("window [days]")].concat(rowColumns), rows: cells.filter((c) => c.row).map((c) => [count(c.size.c.nodes), digits(c.e.days, 4)].concat(rowCells(c.row))) };
  }

  function mesh() {
    const e = envelope();
    const chooser = $("map");
    if (isEmpty() || !e.maps.length) { chooser.innerHTML = ""; return nothing(noModel); }
    const rows = rowsOf(e);
    if (state.map >= e.maps.length) state.map = 0;
    chooser.innerHTML = e.maps.map((m, i) => `<option value="${i}"${i === state.map ? " selected" : ""}>${m.row + 1}. ${escape(rows[m.row].name)}, batch ${count(rows[m.row].batch)}</option>`).join("");
    const r = rows[e.maps[state.map].row], map = data.maps[e.maps[state.map].map];
    const fits = map.cells.filter((c) => c[2] !== null), misfits = map.cells.filter((c) => c[2] === null);
    const best = fits.length ? fits.reduce((a, b) => (b[2] > a[2] ? b : a)) : null;
    const top = best ? best[2] : 1;
    const cell = (c) => ({ value: [c[1], c[0], c[2]], cell: c });
    const cellTip = (p) => { const c = p.data.cell; return `<b>pp ${map.pp[c[0]]} × ep ${map.ep[c[1]]}</b><br>` + (c[2] === null ? `<span style="color:${style("--bad")}">does not fit</span>: the smallest plan needs ${digits(c[3], 4)} GiB` : `MFU ${digits(c[2], 3)} %, ${digits(c[3], 4)} GiB`) + `<br>${escape(c[4])}`; };
    return { height: Math.max(280, 120 + 38 * map.pp.length),
      text: `${r.name}, batch ${count(r.batch)}: best MFU for each pipeline and expert degree, every other axis free. Red: legal, but nothing fits into memory; blank: no legal plan.` + (best ? ` Best: pp ${map.pp[best[0]]}, ep ${map.ep[best[1]]} with ${digits(best[2], 3)} %.` : ""),
      option: base({ legend: { show: false }, grid: { left: 62, right: 22, top: 12, bottom: 86 }, tooltip: tip({ formatter: cellTip }),
        xAxis: axis({ type: "category", data: map.ep.map(String), name: "expert parallel degree (ep)" }), yAxis: axis({ type: "category", data: map.pp.map(String), name: "pipeline degree (pp)", nameGap: 38, splitLine: { show: false } }),
        visualMap: [{ seriesIndex: 1, show: false, min: 0, max: 1, inRange: { color: [style("--bad"), style("--bad")] } }, { seriesIndex: 0, min: 0, max: top, orient: "horizontal", left: "center", bottom: 2, itemHeight: 140, itemWidth: 12, text: [`MFU ${digits(top, 3)} %`, "0"], textStyle: font(), inRange: { color: dark() ? ["#232b37", "#1f6f8b", "#7fdcc4"] : ["#f0f4f6", "#8cc9d9", "#0e6f86"] } }],
        series: [{ name: "fits", type: "heatmap", data: fits.map((c) => Object.assign(cell(c), { label: { color: (c[2] > 0.55 * top) === dark() ? "#10202b" : c[2] > 0.55 * top ? "#ffffff" : style("--ink") } })), label: { show: true, formatter: (p) => fixed(p.data.cell[2], 1), fontSize: 11.5 }, itemStyle: { borderColor: style("--card"), borderWidth: 2, borderRadius: 4 } },
          { name: "does not fit", type: "heatmap", data: misfits.map((c) => ({ value: [c[1], c[0], 0], cell: c })), label: { show: true, formatter: (p) => digits(p.data.cell[3], 3) + " GiB", color: "#fff", fontSize: 10 }, itemStyle: { borderColor: style("--card"), borderWidth: 2, borderRadius: 4, color: style("--bad") } }] }),
      columns: [num("pp"), num("ep"), num("MFU [%]"), num("memory [GiB]"), txt("plan")], rows: map.cells.map((c) => [map.pp[c[0]], map.ep[c[1]], c[2] === null ? "does not fit" : digits(c[2], 4), digits(c[3], 4), c[4]]) };
  }

  const timeColors = () => { const p = palette(); return [p[0], p[4], p[2], p[7], p[3], p[6], p[1], dark() ? "#b8860b" : "#f0b95a", p[5], dark() ? "#a0522d" : "#e9967a", dark() ? "#67727f" : "#aab3bf", dark() ? "#465060" : "#d3d8de"]; };
  function bars(list, key, unit, scale, colors, describe, mark) {
    const parts = Object.keys(list[0][key]).filter((p) => list.some((b) => b[key][p] > 0));
    const all = Object.keys(list[0][key]);
    const labels = list.map((b) => `${b.rank}. ${b.name}`);
    const series = parts.map((part) => ({ name: part, type: "bar", stack: "all", barMaxWidth: 24, itemStyle: { color: colors[all.indexOf(part)] }, data: list.map((b) => b[key][part] / scale) }));
    if (mark) series[0].markLine = { silent: true, symbol: "none", lineStyle: { color: style("--bad"), type: "dashed", width: 1.5 }, label: { formatter: mark.name, color: style("--bad"), position: "end", distance: 4, rotate: 0 }, data: [{ xAxis: mark.value }] };
    return { height: 150 + 32 * list.length, text: describe,
      option: base({ legend: { top: 2, left: 0, itemWidth: 12, itemHeight: 10, itemGap: 8, textStyle: Object.assign(font(), { fontSize: 11 }), type: "plain" }, grid: { left: 148, right: 26, top: 74, bottom: 46 },
        tooltip: tip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: (ps) => { const b = list[ps[0].dataIndex]; return `<b>${escape(b.name)}</b> · ${escape(b.plan)}<br>` + ps.filter((p) => p.value > 0).map((p) => `${p.marker} ${p.seriesName}: ${digits(p.value, 3)} ${unit}`).join("<br>"); } }),
        xAxis: axis({ type: "value", name: unit === "s" ? "seconds of an optimizer step" : "GiB on the heaviest stage", max: mark ? (v) => Math.max(v.max, mark.value) * 1.04 : undefined, axisLabel: { formatter: (v) => digits(v, 3), showMaxLabel: false } }), yAxis: axis({ type: "category", inverse: true, data: labels, axisLabel: { width: 138, overflow: "truncate" }, axisTick: { show: false } }), series }),
      columns: [txt("architecture"), txt("plan")].concat(all.map((p) => num(p + " [" + unit + "]")), [num("sum [" + unit + "]")]), rows: list.map((b) => [b.name, b.plan].concat(all.map((p) => digits(b[key][p] / scale, 4)), [digits(all.reduce((s, p) => s + b[key][p] / scale, 0), 4)])) };
  }
  function time() {
    if (isEmpty()) return nothing(noModel);
    const list = envelope().breakdowns, b = list[0];
    const largest = Object.entries(b.seconds).sort((p, q) => q[1] - p[1]).slice(0, 3).map(([n, s]) => `${n.toLowerCase()} ${percent(s / b.step_seconds)}`).join(", ");
    return bars(list, "seconds", "s", 1, timeColors(), `Where the ${digits(b.step_seconds, 3)} s of ${b.name} go: ${largest}. Communication counts where it is not hidden.`, null);
  }
  function memory() {
    if (isEmpty()) return nothing(noModel);
    const list = envelope().breakdowns, b = list[0], p = palette();
    return bars(list, "bytes", "GiB", GiB, [p[0], p[1], p[2], p[3], p[4], p[7]], `${b.name} needs ${gib(b.memory_with_reserve_bytes)} of ${gib(b.capacity_bytes)} on stage ${b.stage} of ${b.stages}, reserve for fragmentation and context included.`, { name: "capacity", value: b.capacity_bytes / GiB });
  }

  function points() {
    const p = data.points;
    let left = p.points;
    const steps = [{ name: "points of the space", left, gone: 0, why: "architecture × cluster × batch × plan, legal or not" }];
    for (const r of p.refused.filter((q) => q.reason !== "memory")) { left -= r.points; steps.push({ name: r.reason.replace(/_/g, " "), left, gone: r.points, why: r.why }); }
    steps.push({ name: "fits into memory", left: p.feasible, gone: p.evaluations - p.feasible, why: "evaluated; the rest does not fit" });
    return { height: 110 + 26 * steps.length, text: `Of ${count(p.points)} points ${count(p.evaluations)} passed every rule and were evaluated; ${count(p.feasible)} fit into memory (${percent(p.feasible / Math.max(1, p.evaluations), 1)} of those). The whole study, whatever the filters.`,
      option: base({ grid: { left: 152, right: 84, top: 34, bottom: 46 }, tooltip: tip({ trigger: "axis", axisPointer: { type: "shadow" }, formatter: (ps) => { const s = steps[ps[0].dataIndex]; return `<b>${escape(s.name)}</b><br>${escape(s.why)}<br>refused here: ${count(s.gone)}<br>left: ${count(s.left)}`; } }),
        xAxis: axis({ type: "value", name: "points", axisLabel: { formatter: (v) => big(v), hideOverlap: true } }), yAxis: axis({ type: "category", inverse: true, data: steps.map((s) => s.name), axisTick: { show: false } }),
        series: [{ name: "left", type: "bar", stack: "p", barMaxWidth: 18, itemStyle: { color: palette()[0] }, data: steps.map((s) => s.left) }, { name: "refused at this step", type: "bar", stack: "p", itemStyle: { color: dark() ? "#8a4b45" : "#efb4ad" }, data: steps.map((s) => s.gone),
          label: { show: true, position: "right", color: style("--soft"), formatter: (q) => big(steps[q.dataIndex].left) + " left" } }] }),
      columns: [txt("step"), num("refused"), num("left"), txt("why")], rows: steps.map((s) => [s.name, count(s.gone), count(s.left), s.why]) };
  }

  function sure() {
    const e = envelope();
    if (isEmpty() || !e.certainty) return nothing(noModel);
    const rows = rowsOf(e), c = e.certainty, list = c.rows.slice(0, 12).filter((q) => rows[q.row]);
    return { height: 130 + 26 * list.length, text: `Share of ${count(c.draws)} draws of law and step time in which a candidate has the lowest loss. ${count(c.near_ties)} candidates cannot be told from the choice (orange) at 90 %.`,
      option: base({ legend: { show: false }, grid: { left: 148, right: 60, top: 12, bottom: 46 }, tooltip: tip({ formatter: (p) => `best in ${digits(p.data.q.probability * 100, 3)} % of draws<br>expected regret ${fixed(1000 * p.data.q.regret, 2)} millinats<br>` + hover(rows[p.data.q.row]) }),
        xAxis: axis({ type: "value", name: "probability of being best [%]", min: 0 }), yAxis: axis({ type: "category", inverse: true, data: list.map((q) => rows[q.row].name), axisTick: { show: false } }),
        series: [{ type: "bar", barMaxWidth: 18, data: list.map((q) => ({ value: 100 * q.probability, q, itemStyle: { color: q.row === c.choice ? palette()[1] : palette()[0] } })), label: { show: true, position: "right", color: style("--soft"), formatter: (p) => digits(p.value, 2) + " %" } }] }),
      columns: [txt("architecture"), num("P(best) [%]"), num("regret [millinats]"), num("loss − choice, 5 % [millinats]"), num("95 % [millinats]"), txt("tied at 90 %")],
      rows: list.map((q) => [rows[q.row].name, digits(100 * q.probability, 3), fixed(1000 * q.regret, 2), fixed(1000 * q.low, 2), fixed(1000 * q.high, 2), q.tied ? "yes" : "no"]) };
  }

  // ------------------------------------------------------------------ text
  function answer() {
    const e = envelope(), c = data.clusters[state.cluster];
    if (isEmpty()) {
      $("answer").innerHTML = `<div class="card answer"><div class="name">Nothing can be trained</div><p class="sure">${count(e ? e.nothing_fits : 0)} architectures do not fit, ${e && e.over_limits ? `${count(e.over_limits)} are above a limit for serving, ` : ""}${count(e ? e.too_few_tokens : 0)} get too few tokens in ${days(state.days)} on ${escape(clusterLabel(c))}.</p></div>`;
      return;
    }
    const rows = rowsOf(e), r = rows[0], s = e.certainty, choice = rows[s.choice] || r;
    const same = s.choice === 0;
    const f = (name, value, extra, lead) => `<div${lead ? ' class="lead"' : ""}><dt>${name}</dt><dd>${value}${extra ? `<small>${extra}</small>` : ""}</dd></div>`;
    const law = s.members > 1 ? `the law's ${count(s.members)} members` : "the law taken as exact (it has no ensemble)";
    const other = same ? "It is also the choice of least expected regret" : `The choice of least expected regret is <b>${escape(choice.name)}</b>`;
    $("answer").innerHTML = `<div class="card answer"><div><h2>Lowest predicted loss on ${escape(clusterLabel(c))} in ${days(e.days)}</h2><div class="name">${escape(r.name)}</div><div class="plan">${arch.layers[r.a]} layers, width ${count(arch.hidden[r.a])} · plan: batch ${count(r.batch)}, ${escape(r.plan)}</div></div>` +
      `<dl class="facts">${f("Predicted loss", fixed(r.loss, 4), "nats/token", true)}${f("Parameters", big(r.total, 4), "non-embedding")}${f("Active", big(r.active), "per token")}${f("Tokens", big(r.tokens), digits(r.perActive, 3) + " per active" + (r.cut ? ", cut" : ""))}${f("MFU", digits(r.mfu, 3) + " %", "law convention")}${f("Goodput", digits(r.goodput, 4) + " %", "of the window trains")}${f("Step", digits(r.step, 3) + " s", "± " + percent(s.time_error))}${f("Memory", gib(r.memory), "of " + gib(c.memory_cap_bytes))}</dl>` +
      `<p class="sure"><b>How sure?</b> Drawn over ${law} and a step-time error of ${percent(s.time_error)}${s.form_sd ? ` and a misfit of the law's form of ${fixed(1000 * s.form_sd, 1)} millinats per split factor` : ""}: ${other}. It is best in <b>${percent(s.probability)}</b> of the draws, ${count(s.near_ties)} candidates tie with it at 90 %, and choosing it costs <b>${fixed(1000 * s.regret, 1)} millinats</b> on average against knowing the best${s.regret_in_hours ? ` (worth ${percent(s.regret_in_hours, 1)} of the GPU-hours)` : ""}. With the law as the only doubt it would be ${percent(s.law_only.probability)}, with the step time alone ${percent(s.time_only.probability)}.</p>` +
      data.facts.warnings.map((w) => `<p class="warning">${escape(w)}</p>`).join("") + "</div>";
  }

  const goodput = (g) => `Goodput is the share of the window that trains: ${g.modelled ? `by the model “${escape(g.name)}” of failures, checkpoints and restarts` : g.name === "constant" ? "a constant of the study" : `the constant of “${escape(g.name)}”`}.${g.note ? " " + escape(g.note) : ""}`;
  function text() {
    const f = data.facts, e = envelope(), c = data.clusters[state.cluster];
    $("title").textContent = f.title;
    $("subtitle").textContent = `${count(f.architectures)} architectures, ${count(data.points.points)} points, sequence ${count(f.sequence)} tokens, law “${f.law}”, ${c.device_title}, ${c.fabric} with stack ${c.stack}.`;
    const b = f.token_bounds;
    const error = e && e.breakdowns.length ? percent(e.breakdowns[0].expected_error) : "unknown";
    $("accuracy").innerHTML = `<div class="card"><h2>How far to trust this</h2><p>Step times on ${escape(c.device_title)} with ${escape(c.stack)} are expected to be off by about <b>${error}</b>, measured by validation against published runs (tessera validate); memory of allocated tensors is closer, and the reserve for fragmentation and context is part of every figure here. A step time that is wrong in the same way for all candidates does not change their order.</p>` +
      `<p>Losses come from the law “${escape(f.law)}” and rank architectures within that law only. MFU is 6 · active parameters · tokens over the dense bf16 peak. ${goodput(f.goodput)} ${b.low || b.high ? `Tokens per active parameter are held between ${b.low === null ? "no lower bound" : digits(b.low, 3)} and ${b.high === null ? "no upper bound" : digits(b.high, 3)}: below, an architecture is left out; above, its tokens are cut.` : ""}</p>` +
      (e ? `<p>In this envelope ${count(e.ranked)} architectures were ranked, ${count(e.nothing_fits)} do not fit, ${e.over_limits ? `${count(e.over_limits)} are above a limit for serving, ` : ""}${count(e.too_few_tokens)} fall below the token bound${e.outside_law ? `, ${count(e.outside_law)} lie outside the law` : ""}.</p>` : "") + "</div>";
    $("candidates").innerHTML = isEmpty() ? "" : `<div class="card"><h2>Candidates by predicted loss</h2>${table([num("#")].concat(rowColumns), rowsOf(e).slice(0, 100).map((r) => [r.i + 1].concat(rowCells(r))))}` +
      (e.ranked > e.rows.loss.length ? `<p>The page keeps the best ${count(e.rows.loss.length)} of ${count(e.ranked)}; all are in results.h5.</p>` : "") + "</div>";
    $("footer").textContent = `Tessera ${f.version} · study ${f.study} · signature ${f.signature}. Everything on this page is inside this file; it sends nothing and loads nothing.`;
  }

  // ------------------------------------------------------------------ start
  figure("certainty", "How likely each candidate is the best", {}, sure);
  figure("budget", "Budget: nodes and days", {}, budget);
  figure("loss", "Loss against compute", { wide: true, tall: true }, lossFlops);
  figure("loss-sparsity", "Loss against sparsity", {}, () => againstSparsity((r) => r.loss, "predicted loss [nats per token]", (a, b) => a.loss < b.loss, (rows, best) => `Lines: lowest loss of each band of sparsity, one line for each split factor. The optimum has ${digits(best.total / best.active, 3)} times as many parameters as it uses for a token.`));
  figure("mfu-sparsity", "MFU against sparsity", {}, () => againstSparsity((r) => r.mfu, "MFU [%]", (a, b) => a.mfu > b.mfu, (rows, best) => `Lines: highest MFU of each band of sparsity. The optimum runs at ${digits(best.mfu, 3)} %; the highest of all is ${digits(Math.max(...rows.map((r) => r.mfu)), 3)} %.`));
  figure("split", "Split factor", {}, bySplit);
  figure("mesh", "Pipeline against expert parallelism", { extra: '<label class="choose">Architecture <select id="map"></select></label>' }, mesh);
  figure("time", "Where the step's time goes", {}, time);
  figure("memory", "Where the memory goes", {}, memory);
  figure("points", "Why points were refused", { wide: true }, points);

  function draw_all() {
    answer();
    text();
    draw_figures();
  }
  // What is in sight at once, the rest one by one as soon as the browser has nothing better to do.
  let waiting = [];
  function draw_figures(all) {
    const root = document.documentElement.dataset;
    const inSight = (id) => { const box = figures.get(id).el.getBoundingClientRect(); return box.top < innerHeight && box.bottom > 0; };
    const begun = waiting.length > 0;
    delete root.complete;
    waiting = [...figures.keys()].filter((id) => { if (!all && !inSight(id)) return true; draw(id); return false; });
    const next = () => {
      if (waiting.length) draw(waiting.shift());
      if (waiting.length) setTimeout(next);
      else root.complete = "yes";
    };
    if (!begun || !waiting.length) next();
  }
  function select(cluster, window) {
    state.cluster = cluster;
    state.days = window;
    state.map = 0;
    $("cluster").value = cluster;
    $("days").value = window;
    history.replaceState(null, "", `#cluster=${cluster}&days=${window}`);
    draw_all();
  }
  function setTheme(theme, all) {
    document.documentElement.dataset.theme = theme;
    draw_figures(all);
  }
  $("cluster").innerHTML = data.clusters.map((c, i) => `<option value="${i}">${escape(clusterLabel(c))}</option>`).join("");
  $("days").innerHTML = data.days.map((d) => `<option value="${d}">${days(d)}</option>`).join("");
  document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  readHash();
  $("cluster").value = state.cluster;
  $("days").value = state.days;
  $("cluster").addEventListener("change", () => select(+$("cluster").value, state.days));
  $("days").addEventListener("change", () => select(state.cluster, +$("days").value));
  $("map").addEventListener("change", () => { state.map = +$("map").value; draw("mesh"); });
  $("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (q) => setTheme(q.matches ? "dark" : "light"));
  let before = null;  // paper is white
  addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; setTheme("light", true); for (const f of figures.values()) f.chart.resize(); });
  addEventListener("afterprint", () => { if (before) setTheme(before); });
  addEventListener("resize", () => { for (const f of figures.values()) if (f.chart) f.chart.resize(); });
  draw_all();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
