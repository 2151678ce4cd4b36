import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { jsonSchema } from "#config/json-schema.ts";
import { loadConfiguration } from "#config/load.ts";
import type { Entry, SourceRecord } from "#connector.ts";
import { connectors, targetConnectors } from "#connectors/index.ts";
import { compileRules } from "#principals/compile.ts";

const folder = join(import.meta.dirname, "../../../config");
const loaded = await Promise.all(connectors.map(({ load }) => load()));
const targets = await Promise.all(targetConnectors.map(({ load }) => load()));
const configuration = await loadConfiguration(join(folder, "rollcall.yaml"), { connectors, environment: {} });
const { company } = configuration.sources;
const { staff } = configuration.syncs;

async function records(): Promise<SourceRecord[]> {
  const source = company?.connector.open(company.options, { name: "company", folder });
  const found: SourceRecord[] = [];
  for await (const batch of source?.read({ signal: new AbortController().signal, warn: () => undefined }) ?? [])
    found.push(...batch);
  return found;
}

test("the shipped configuration needs no environment", () => {
  expect(configuration.service?.listen).toEqual({ host: "127.0.0.1", port: 8442 });
  expect(configuration.service?.administrator).toEqual({ name: "admin" });
  expect(configuration.data).toBe(join(folder, "../data"));
  expect(configuration.targets).toEqual({ analytics: "embedded" });
  expect(staff).toMatchObject({ from: ["company"], to: "analytics", schedule: "*/15 * * * *", manage: "owned" });
  expect(configuration.secrets).toEqual([]);
});

test("the sample company is a sound directory", async () => {
  const all = await records();
  const entries = all.filter((record): record is Entry => record.kind !== "membership");
  const users = entries.filter(({ kind }) => kind === "user");
  const groups = entries.filter(({ kind }) => kind === "group");
  expect([users.length, groups.length]).toEqual([204, 30]);
  const keys = (of: readonly Entry[]): Set<string> => new Set(of.flatMap((entry) => entry.keys));
  const references = all.flatMap((record) => (record.kind === "membership" ? [record.group] : record.memberOf));
  expect(references.filter((reference) => !keys(groups).has(reference))).toEqual([]);
  const members = all.flatMap((record) => (record.kind === "membership" ? [record.member.key] : []));
  expect(members.filter((member) => !keys(users).has(member))).toEqual([]);
  for (const attribute of ["employee", "login", "mail"]) {
    const values = users.flatMap(({ attributes }) => attributes[attribute] ?? []);
    expect(new Set(values).size).toBe(values.length);
    expect(values.filter((value) => !/^[\x21-\x7E]+$/.test(String(value)))).toEqual([]);
  }
});

test("the rules take everybody but who has left, and every site is a group", async () => {
  const rules = compileRules(staff?.rules ?? { users: { name: "", displayName: "" } });
  const entries = (await records()).filter((record): record is Entry => record.kind !== "membership");
  const verdicts = entries.map((entry) => ({ entry, ...rules.judge(entry) }));
  expect(verdicts.filter(({ verdict }) => verdict === "quarantined")).toEqual([]);
  const excluded = verdicts.filter(({ verdict }) => verdict === "excluded");
  expect(excluded.map(({ entry }) => entry.attributes["login"])).toEqual(["dbaran"]);
  const included = verdicts.filter((one) => one.verdict === "included");
  const groups = new Set(included.flatMap(({ entry, name }) => (entry.kind === "group" ? [name] : [])));
  expect(included.flatMap((one) => one.groups).filter((name) => !groups.has(name))).toEqual([]);
  expect(
    included.filter(({ entry, attributes }) => entry.kind === "user" && attributes["mail"] === undefined).length,
  ).toBe(7);
});

test("config/schema.json is what the schemas say", async () => {
  const written: unknown = JSON.parse(await readFile(join(folder, "schema.json"), "utf8"));
  expect(written).toEqual(JSON.parse(JSON.stringify(jsonSchema(loaded, targets))));
});

test("the schema describes every key", () => {
  const undescribed: string[] = [];
  const visit = (node: unknown): void => {
    if (typeof node !== "object" || node === null) return;
    for (const [key, value] of Object.entries(node)) {
      visit(value);
      if (key !== "properties") continue;
      for (const [name, property] of Object.entries(value as Record<string, object>))
        if (!("description" in property) && !("const" in property)) undescribed.push(name);
    }
  };
  visit(jsonSchema(loaded, targets));
  expect(undescribed).toEqual([]);
});

test("an editor accepts what loads, substitutions included, and marks what does not", async () => {
  const schema = z.fromJSONSchema(jsonSchema(loaded, targets));
  const accepts = (text: string): boolean => schema.safeParse(parse(text)).success;
  const shipped = await readFile(join(folder, "rollcall.yaml"), "utf8");
  expect(accepts(shipped)).toBe(true);
  expect(accepts("service:\n")).toBe(true);
  expect(
    accepts("service: { logins: { attempts: '${env:X}', window: '${env:X}' }, allowPlainHttp: '${file:x}' }"),
  ).toBe(true);
  expect(accepts("sources: { hr: { connector: ./hr.ts, anything: 1 } }")).toBe(true);
  expect(accepts(shipped.replace("minRows: 150", "minRows: ${env:ROWS}"))).toBe(true);
  expect(accepts(shipped.replace("minRows: 150", "minRows: many"))).toBe(false);
  expect(accepts(shipped.replace("schedule:", "schedul:"))).toBe(false);
  expect(accepts(shipped.replace("connector: csv", "connector: cvs"))).toBe(false);
  const toScim = 'users: { name: entry.login, "name.givenName": entry.first, title: entry.title }';
  const sync = (rules: string): string => `syncs: { app: { from: [hr], to: app, ${rules} } }`;
  expect(accepts(`targets: { app: { connector: scim, url: "https://app.example/scim" } }\n${sync(toScim)}`)).toBe(true);
  expect(accepts(sync("users: { name: 1 }"))).toBe(false);
  expect(accepts("service: { logins: { window: soon } }")).toBe(false);
  expect(accepts("servce:\n")).toBe(false);
});
