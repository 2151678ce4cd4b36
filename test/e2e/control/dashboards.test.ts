import { readFile } from "node:fs/promises";
import { parser } from "@prometheus-io/lezer-promql";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { startDaemon } from "../../support/console.ts";
import { parseExposition } from "../../support/exposition.ts";
import type { Exposition } from "../../support/exposition.ts";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest((yaml) => `${yaml}    expectations: [{ name: enough, expect: users.size() > 1 }]\n`);
const packaging = new URL("../../../packaging/", import.meta.url);

/** What Prometheus adds to every sample. */
const added = ["job", "instance", "le"];

interface Selector {
  readonly name: string;
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[];
}

/** The selectors of a PromQL expression and the labels it groups by. Throws where it is no PromQL. */
function partsOf(expression: string): { selectors: Selector[]; groupedBy: string[] } {
  const [selectors, groupedBy]: [{ name: string; matchers: Selector["matchers"][number][] }[], string[]] = [[], []];
  const text = (node: { from: number; to: number }): string => expression.slice(node.from, node.to);
  parser.parse(expression).iterate({
    enter: ({ type, node }) => {
      if (type.isError) throw new Error(`no PromQL at ${node.from}: ${expression}`);
      if (type.name === "VectorSelector") selectors.push({ name: text(node).split("{", 1)[0] ?? "", matchers: [] });
      if (type.name === "UnquotedLabelMatcher") {
        const [label = "", operator = "", value = ""] = ["LabelName", "MatchOp", "StringLiteral"].map((name) => {
          const child = node.getChild(name);
          return child === null ? "" : text(child);
        });
        selectors.at(-1)?.matchers.push({ label, operator, value: value.slice(1, -1) });
      }
      if (type.name === "GroupingLabels") groupedBy.push(...node.getChildren("LabelName").map(text));
    },
  });
  return { selectors, groupedBy };
}

/** What an expression asks for that the daemon does not expose. */
function missing(expression: string, { types, samples }: Exposition): string[] {
  const { selectors, groupedBy } = partsOf(expression);
  const labels = new Set(added);
  const problems = selectors.flatMap(({ name, matchers }) => {
    if (name === "up") return [];
    if (!types.has(name.replace(/_bucket$/, ""))) return [`${name} is no metric`];
    const ofIt = samples.filter((sample) => sample.name === name);
    for (const sample of ofIt) for (const label of Object.keys(sample.labels)) labels.add(label);
    return matchers.flatMap(({ label, operator, value }) => {
      if (added.includes(label) || ofIt.length === 0 || value.startsWith("$")) return [];
      if (!ofIt.some((sample) => label in sample.labels)) return [`${name} has no label ${label}`];
      const isThere = operator !== "=" || ofIt.some((sample) => sample.labels[label] === value);
      return isThere ? [] : [`no ${name} has ${label}="${value}"`];
    });
  });
  const isCounted = selectors.every(({ name }) => samples.some((sample) => sample.name === name));
  const unknown = isCounted ? groupedBy.filter((label) => !labels.has(label)) : [];
  return [...problems, ...unknown.map((label) => `no label ${label}: ${expression}`)];
}

test("every metric and label of the alert rules and of the dashboard is one that a running daemon exposes", async () => {
  const daemon = await startDaemon(company, "applied and verified");
  const exposed = parseExposition(await (await fetch(`${daemon.url}/metrics`)).text());
  const rules = parse(await readFile(new URL("prometheus/rollcall.rules.yaml", packaging), "utf8")) as {
    groups: { rules: { alert: string; expr: string; labels: { severity: string } }[] }[];
  };
  const alerts = rules.groups.flatMap((group) => group.rules);
  const dashboard = JSON.parse(await readFile(new URL("grafana/rollcall.json", packaging), "utf8")) as {
    panels: { title: string; targets?: { expr: string }[] }[];
    templating: { list: { definition?: string }[] };
  };
  const panels = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  const variables = dashboard.templating.list.flatMap(({ definition = "" }) =>
    [...definition.matchAll(/^label_values\((?<name>\w+), \w+\)$/g)].map(({ groups }) => groups?.["name"] ?? ""),
  );
  const page = await readFile(new URL("../docs/operations/monitoring.md", packaging), "utf8");
  const shown = [...page.matchAll(/^ *expr: (?<expression>.+)$/gm)].map(({ groups }) => groups?.["expression"] ?? "");
  const all = [...alerts.map(({ expr }) => expr), ...panels, ...variables, ...shown];
  expect(all.length).toBeGreaterThan(35);
  expect(all.flatMap((each) => missing(each.replaceAll("$__rate_interval", "5m"), exposed))).toEqual([]);
  expect(alerts.filter(({ labels }) => !["critical", "warning", "info"].includes(labels.severity))).toEqual([]);
  // The parser and the comparison do notice what is wrong.
  expect(missing('rate(rollcall_runs_total{outcome="helt"}[1h])', exposed)).toEqual([
    'no rollcall_runs_total has outcome="helt"',
  ]);
  expect(missing("sum by (snyc) (rollcall_sync_overdue)", exposed)).toHaveLength(1);
  expect(missing("rollcall_sync_overdu", exposed)).toEqual(["rollcall_sync_overdu is no metric"]);
  expect(() => partsOf("sum by (sync (up)")).toThrow("no PromQL");
});
