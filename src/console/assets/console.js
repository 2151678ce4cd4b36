// What a browser does by itself; every page works without it.
(() => {
  const units = [
    ["day", 86_400_000],
    ["hour", 3_600_000],
    ["minute", 60_000],
    ["second", 1000],
  ];
  const relative = new Intl.RelativeTimeFormat("en", { style: "long" });
  const exact = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

  /** Moments in the reader's own time, with UTC on hover; relative ones keep up with the clock. */
  function tellTimes() {
    const now = Date.now();
    for (const element of document.querySelectorAll("time[datetime]")) {
      const at = new Date(element.dateTime);
      const utc = `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
      const local = exact.format(at);
      let text = local;
      if (!("exact" in element.dataset)) {
        const distance = at.getTime() - now;
        const [unit, size] = units.find(([, size]) => Math.abs(distance) >= size) ?? units.at(-1);
        text = relative.format(Math.trunc(distance / size), unit);
      }
      if (element.textContent !== text) element.textContent = text;
      element.title = "exact" in element.dataset ? utc : `${local} (${utc})`;
    }
  }

  /** The dialog that names the keys. */
  function showKeys() {
    let dialog = document.querySelector("dialog#keys");
    if (dialog === null) {
      dialog = document.createElement("dialog");
      dialog.id = "keys";
      dialog.setAttribute("aria-labelledby", "keys-title");
      const rows = [
        ["j, k", "next, previous row"],
        ["Enter", "open the row"],
        ["/", "search or filter"],
        ["g o, g r, g d, g p, g b, g a", "overview, runs, in doubt, people and groups, pinboards, audit"],
        ["?", "this help"],
      ];
      const article = document.createElement("article");
      const title = document.createElement("h2");
      title.id = "keys-title";
      title.textContent = "Keys";
      const list = document.createElement("dl");
      list.className = "facts";
      for (const [keys, what] of rows) {
        const row = document.createElement("div");
        const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
        term.textContent = keys;
        meaning.textContent = what;
        row.append(term, meaning);
        list.append(row);
      }
      const form = document.createElement("form");
      form.method = "dialog";
      const close = document.createElement("button");
      close.textContent = "Close";
      form.append(close);
      article.append(title, list, form);
      dialog.append(article);
      document.body.append(dialog);
    }
    if (!dialog.open) dialog.showModal();
  }

  /** Moves the focus to the first link of another row. */
  function move(step) {
    const rows = [...document.querySelectorAll("[data-row]")];
    if (rows.length === 0) return;
    const current = rows.findIndex((row) => row.contains(document.activeElement));
    const next = rows[Math.min(Math.max(current + step, 0), rows.length - 1)];
    const target = next.matches("a, summary") ? next : (next.querySelector("a, summary") ?? next);
    target.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (
      event.target.matches?.("input:not([type=checkbox]), select, textarea") ||
      document.querySelector("dialog[open]")
    )
      return;
    const { key } = event;
    const went =
      before === "g" ? { o: "/", r: "/runs", d: "/doubt", p: "/people", b: "/pinboards", a: "/audit" }[key] : undefined;
    before = key;
    if (went !== undefined) location.assign(went);
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "?") showKeys();
    else if (key === "/") {
      const search = document.querySelector("[data-search]");
      if (search === null) return;
      event.preventDefault();
      search.focus();
    }
  });

  tellTimes();
  setInterval(tellTimes, 10_000);
  document.addEventListener("htmx:after:swap", tellTimes);
})();
