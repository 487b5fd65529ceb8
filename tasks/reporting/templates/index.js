"use strict";
(() => {
  const byId = id => document.getElementById(id);
  const data = JSON.parse(byId("facts").textContent);
  const table = byId("index");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row, number) => ({row, number}));
  document.documentElement.classList.add("js");
  byId("controls").hidden = false;
  byId("plain").hidden = true;

  const printable = text => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, "\ufffd");
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = printable(text);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const say = (element, text) => { element.textContent = printable(text); };
  const fact = (release, group, name) => {
    const at = data.names.findIndex(([g, n]) => g === group && n === name);
    const [text, note, value, lower, upper, items, missing] = data.facts[data.releases[release][2][at]];
    return {text, note, value, lower, upper, items, missing};
  };

  // Search: every word must occur somewhere in a release's row, its mechanism or its warnings.
  const haystack = number => {
    const warnings = fact(number, "Warnings", "Warnings").items;
    const text = [data.releases[number][0], rows[number].row.textContent, fact(number, "Mechanism", "Name").text, ...warnings];
    return text.join("\n").toLowerCase().replaceAll("\u00a0", " ");
  };
  const every = rows.length.toLocaleString("en");
  let haystacks = null;
  const search = () => {
    haystacks ??= rows.map((_, number) => haystack(number));
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const {row, number} of rows) {
      const fits = words.every(word => haystacks[number].includes(word));
      if (row.hidden === fits) row.hidden = !fits;
      shown += fits;
    }
    say(byId("found"), words.length ? `${shown.toLocaleString("en")} of ${every} releases found` : `all ${every} releases shown`);
  };
  say(byId("found"), `all ${every} releases shown`);
  byId("search").addEventListener("input", search);

  // Sorting: numbers by their exact value, and what has none last, whichever way.
  const headers = [...table.tHead.rows[0].cells];
  const collator = new Intl.Collator("en", {numeric: true});
  const keyOf = (row, column, kind) => {
    const cell = row.cells[column];
    const key = cell.dataset.key ?? cell.textContent;
    return kind === "text" ? key : key === "" ? null : Number(key);
  };
  const sort = (header, column) => {
    const ascending = header.getAttribute("aria-sort") !== "ascending";
    for (const other of headers) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const kind = header.dataset.sort;
    const keyed = rows.map(({row, number}) => ({row, number, key: keyOf(row, column, kind)}));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.number - b.number;
      const order = kind === "text" ? collator.compare(a.key, b.key) : a.key - b.key;
      return (ascending ? order : -order) || a.number - b.number;
    });
    body.append(...keyed.map(({row}) => row));
  };
  headers.forEach((header, column) => {
    const button = make("button", header.textContent, {type: "button"});
    header.replaceChildren(button);
    button.addEventListener("click", () => sort(header, column));
  });

  // Two releases are picked at most; a third takes the place of the one picked first.
  let picked = [];
  const boxes = rows.map(({row, number}) => {
    const cell = make("td", undefined, {class: "pick", role: "cell"});
    const label = make("label");
    const box = make("input", undefined, {type: "checkbox", "aria-label": printable(`Compare ${data.releases[number][0]}`)});
    label.append(box, " Compare");
    cell.append(label);
    row.append(cell);
    box.addEventListener("change", () => {
      picked = picked.filter(other => other !== number);
      if (box.checked) picked = [...picked, number].slice(-2);
      show();
    });
    return box;
  });
  table.tHead.rows[0].append(make("th", "Compare", {scope: "col", role: "columnheader", class: "unsorted pick"}));

  const one = (release, of) => {
    const cell = make("td", undefined, {role: "cell"});
    if (of.items && of.items.length) {
      const list = make("ul");
      for (const item of of.items) list.append(make("li", item));
      cell.append(list);
    } else {
      cell.append(make("span", of.text, /^[0-9a-f]{64}$/.test(of.text) ? {class: "hash"} : {}));
    }
    if (of.note) cell.append(make("span", of.note, {class: "note"}));
    cell.dataset.label = release;
    cell.className = release.toLowerCase();
    return cell;
  };
  const difference = (a, b) => {
    if (a.missing && b.missing) return ["not computed in either", false];
    if (a.missing || b.missing) return [`cannot be compared: not computed in the ${a.missing ? "first" : "second"}`, true];
    if (a.items) {
      const gone = a.items.filter(item => !b.items.includes(item)).length;
      const come = b.items.filter(item => !a.items.includes(item)).length;
      if (!gone && !come) return ["same", false];
      return [`differs: ${gone} only in the first, ${come} only in the second`, true];
    }
    if (a.value === null) return a.text === b.text ? ["same", false] : ["differs", true];
    const intervals = a.lower !== null && b.lower !== null;
    if (a.value === b.value && (!intervals || (a.lower === b.lower && a.upper === b.upper))) return ["same", false];
    let words = a.value === b.value ? "same estimate" : `second is ${b.value > a.value ? "higher" : "lower"}`;
    if (a.value !== b.value && a.text === b.text) words += ", by less than is shown";
    if (intervals) {
      words += a.lower <= b.upper && b.lower <= a.upper
        ? "; the intervals overlap: may be chance" : "; the intervals do not overlap";
    }
    return [words, true];
  };
  const remarks = (first, second) => {
    const differ = (group, name) => fact(first, group, name).text !== fact(second, group, name).text;
    if (differ("Release", "Data set")) return ["The two are of different data sets: their figures are about different tables."];
    const found = [];
    if (differ("Versions", "SHA-256 of the source")) found.push("The two were made from different source files.");
    if (differ("Versions", "Code")) found.push("The two were made by different versions of the code.");
    return found;
  };
  const compare = () => {
    const [first, second] = picked;
    const names = picked.map(number => data.releases[number][0]);
    say(byId("first-name"), `First: ${names[0]}`);
    say(byId("second-name"), `Second: ${names[1]}`);
    byId("comparison-remarks").replaceChildren(...remarks(first, second).map(text => make("li", text)));
    const only = byId("only-differences").checked;
    const groups = new Map();
    let count = 0;
    for (const [group, name] of data.names) {
      const a = fact(first, group, name), b = fact(second, group, name);
      const [words, differs] = difference(a, b);
      count += differs;
      if (only && !differs) continue;
      if (!groups.has(group)) {
        const section = make("tbody", undefined, {role: "rowgroup"});
        const head = make("tr", undefined, {role: "row"});
        head.append(make("th", group, {scope: "rowgroup", colspan: "4", role: "rowheader"}));
        section.append(head);
        groups.set(group, section);
      }
      const row = make("tr", undefined, {role: "row", class: words === "same" ? "same" : "other"});
      row.append(make("th", name, {scope: "row", role: "rowheader"}), one("First", a), one("Second", b));
      row.append(make("td", words, {role: "cell", "data-label": "Difference", class: differs ? "differs" : "same"}));
      groups.get(group).append(row);
    }
    const shown = document.querySelector("table.compare");
    for (const old of [...shown.tBodies]) old.remove();
    shown.append(...groups.values());
    say(byId("comparison-summary"), `First: ${names[0]}, made ${data.releases[first][1]} UTC. Second: ${names[1]}, made ` +
      `${data.releases[second][1]} UTC. ${count} of ${data.names.length} figures differ.`);
  };
  const show = () => {
    boxes.forEach((box, number) => {
      box.checked = picked.includes(number);
      rows[number].row.classList.toggle("picked", box.checked);
    });
    byId("picked").hidden = picked.length === 0;
    byId("comparison").hidden = byId("show").hidden = byId("swap").hidden = picked.length < 2;
    const names = picked.map(number => data.releases[number][0]);
    say(byId("picked-names"), picked.length === 2 ? `First: ${names[0]}. Second: ${names[1]}.`
      : picked.length ? `First: ${names[0]}. Pick a second release to compare it with.` : "");
    if (picked.length === 2) compare();
  };
  byId("show").addEventListener("click", () => {
    byId("comparison").scrollIntoView();
    byId("comparison-heading").focus();
  });
  byId("swap").addEventListener("click", () => { picked.reverse(); show(); });
  byId("clear").addEventListener("click", () => { picked = []; show(); byId("search").focus(); });
  byId("only-differences").addEventListener("change", compare);
})();
