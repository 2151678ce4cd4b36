import { parse } from "yaml";
import { expect, test } from "vitest";
import type { Configuration } from "#config/configuration.ts";
import { changeRules, rulesText } from "#config/rules.ts";
import { InputError } from "#errors.ts";
import { load } from "./support.ts";

const environment = { ACTIVE: 'entry.state == "Tr0ub4dor"', HOME: "/root", TOKEN: "sesame-sesame" };

const yaml = `service:
  administrator: { password: top-secret-word }
targets: { here: embedded, far: { url: "https://far.example", username: u, password: far-away-secret } }
sources: { corp: { connector: list, token: "\${env:TOKEN}" } }
syncs:
  staff:
    from: [corp]
    to: here
    # the password is hunter2
    users: &users
      include: "\${env:ACTIVE}"
      name: entry.uid
      displayName: entry.cn + " $\${x}"
      mail: 'entry.mail == "top-secret-word" ? null : entry.mail'
      description: lookup("sites.csv", entry.site).city
    staticGroups:
      api-token: { description: hush-hush }
    groups: { name: entry.cn, displayName: { absent: keep, value: "entry.cn" } }
    defaultPassword: initial-secret
    limits: { deletes: { count: 1 } }
  others: { from: [corp], to: far, users: { <<: *users, description: 'lookup("salaries.csv", entry.uid).salary' } }
`;

const tables: string[] = [];
const readTable = async (file: string) => {
  tables.push(file);
  if (file.startsWith("/")) throw new InputError(`${file} was read`);
  return { columns: ["site", "city", "salary"], rows: new Map(), digest: "0" };
};

async function running(text = yaml): Promise<Configuration> {
  return (await load(text, { environment, readTable })).configuration;
}

/** What is wrong with the rules of `staff` once they are changed. */
async function refused(change: (text: string) => string, sync = "staff"): Promise<readonly string[]> {
  const configuration = await running();
  tables.length = 0;
  const error = await changeRules(configuration, sync, change(rulesText(configuration, sync)), environment).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(InputError);
  return (error as InputError).problems;
}

test("the text has the rules alone, as they are written: no secret, no comment, aliases and merge keys resolved", async () => {
  const configuration = await running();
  const text = rulesText(configuration, "staff");
  expect(text).not.toMatch(/secret|hunter2|hush|Tr0ub4dor|limits|from|defaultPassword/);
  expect(parse(text)).toEqual({
    syncs: {
      staff: {
        users: {
          include: "${env:ACTIVE}",
          name: "entry.uid",
          displayName: 'entry.cn + " $${x}"',
          mail: 'entry.mail == "***" ? null : entry.mail',
          description: 'lookup("sites.csv", entry.site).city',
        },
        groups: { name: "entry.cn", displayName: { absent: "keep", value: "entry.cn" } },
        staticGroups: { "api-token": { description: "***" } },
      },
    },
  });
  expect(parse(rulesText(configuration, "others")).syncs.others.users.include).toBe("${env:ACTIVE}");
});

test("what is shown comes back as what it stands for; a change changes the rules of that sync alone", async () => {
  const configuration = await running();
  const text = rulesText(configuration, "staff");
  const { readTable: _read, ...same } = await changeRules(configuration, "staff", text, environment);
  const { readTable: _own, ...own } = configuration;
  expect(same).toEqual(own);
  const changed = await changeRules(configuration, "staff", text.replace("entry.uid", "lower(entry.uid)"), environment);
  const { staff, ...others } = changed.syncs;
  expect(staff?.rules.users).toMatchObject({ name: "lower(entry.uid)", include: environment.ACTIVE });
  expect(staff).toEqual({ ...configuration.syncs["staff"], rules: staff?.rules });
  const { staff: _staff, ...known } = configuration.syncs;
  expect(others).toEqual(known);
  expect([changed.sources, changed.targets, changed.service]).toEqual([
    configuration.sources,
    configuration.targets,
    configuration.service,
  ]);
});

test.each([
  ["a source", "sources: { corp: { connector: ./evil.ts } }"],
  ["a target", "targets: { here: { url: https://evil.example, username: a, password: b } }"],
  ["the service", "service: { tls: { cert: /etc/shadow, key: /etc/shadow } }"],
  ["an include", 'include: "/etc/passwd"'],
  ["another sync", "  others: { users: { name: entry.uid, displayName: entry.cn } }"],
  ["where it comes from", "    from: [corp]"],
  ["where it goes", "    to: far"],
  ["its password", "    defaultPassword: x"],
  ["its limits", "    limits: { deletes: none }"],
  ["what it protects", "    protect: { users: [] }"],
  ["its approval", "    approval: automatic"],
  ["its heartbeat", "    heartbeat: https://evil.example/"],
  ["its export", "    export: { database: x }"],
])("%s cannot be changed", async (_what, line) => {
  const at = rulesText(await running(), "staff").split("\n").length;
  const key = line.trim().split(":", 1)[0] ?? "";
  const problems = await refused((text) => `${text}${line}\n`);
  const column = line.length - line.trimStart().length + 1;
  expect(problems).toEqual([
    expect.stringMatching(
      new RegExp(`^rules:${at}:${column}: \\S*${key}: only the rules of staff can be tried: .*; remove it$`),
    ),
  ]);
  // Nothing was looked at on its behalf.
  expect(tables).toEqual([]);
});

test("rules in the wrong place are told the right one", async () => {
  const problems = await refused((text) => `${text}users: { name: entry.uid }\n`);
  expect(problems).toEqual([expect.stringMatching(/^rules:\d+:1: users: put it below syncs\.staff$/)]);
});

test.each([
  ["a variable", '"${env:HOME}"'],
  ["a variable of the configuration in another place", '"${env:TOKEN}"'],
  ["the same variable with a default", '"${env:ACTIVE:-x}"'],
  ["a file", '"${file:/etc/shadow}"'],
  ["a part of a value", "'entry.uid + \"${file:/etc/shadow}\"'"],
  ["something unfinished", '"${env:HOME"'],
])("%s is not read", async (_what, value) => {
  const problems = await refused((text) => text.replace("name: entry.uid", `name: ${value}`));
  expect(problems).toEqual([
    expect.stringMatching(/^rules:\d+:\d+: syncs\.staff\.users\.name: reads the environment or a file/),
  ]);
});

test("a substitution is filled in where it stands, and nowhere else", async () => {
  const problems = await refused((text) => `${text}    defaultGroups: ["\${env:ACTIVE}"]\n`);
  expect(problems).toEqual([expect.stringMatching(/defaultGroups\[0\]: reads the environment/)]);
});

test.each(["/etc/shadow", "salaries.csv", "./sites.csv", "../sites.csv"])("the table %s is not read", async (file) => {
  const problems = await refused((text) =>
    text.replace("mail: ", `groups: lookup(${JSON.stringify(file)}, entry.uid).city\n      mail: `),
  );
  expect(problems).toEqual([
    expect.stringMatching(
      /^rules:\d+:\d+: syncs\.staff\.users\.groups: a trial reads only the tables that the sync reads; those are sites\.csv/,
    ),
  ]);
  expect(new Set(tables)).toEqual(new Set(["sites.csv"]));
});

test.each(["userPassword", "unicodePwd", "USERPASSWORD", "ms-Mcs-AdmPwd", "2.5.4.35", "userPassword;x-a"])(
  "the password %s is not read",
  async (attribute) => {
    const problems = await refused((text) =>
      text.replace("name: entry.uid", `name: 'coalesce(entry["${attribute}"], entry.uid)'`),
    );
    expect(problems).toEqual([expect.stringMatching(/syncs\.staff\.users\.name: .* is a password/)]);
  },
);

test("a password that the rules read already may be read", async () => {
  const configuration = await running(yaml.replaceAll("name: entry.uid", "name: entry.password"));
  const text = rulesText(configuration, "staff");
  const change = text.replace("entry.password", "lower(entry.password)");
  const { syncs } = await changeRules(configuration, "staff", change, environment);
  expect(syncs["staff"]?.rules.users.name).toBe("lower(entry.password)");
});

test("what is wrong is told as the reader of the configuration tells it, without secrets", async () => {
  expect(await refused((text) => text.replace("name: entry.uid", "name: lowr(entry.uid)"))).toEqual([
    expect.stringMatching(
      /^rules:\d+:\d+: syncs\.staff\.users\.name: unknown function `lowr`; did you mean `lower`\?$/,
    ),
  ]);
  expect(await refused((text) => text.replace("      name: entry.uid\n", ""))).toEqual([
    expect.stringMatching(/^rules:3:5: syncs\.staff\.users\.name: missing; expected a CEL expression/),
  ]);
  expect(await refused((text) => text.replace("users:", "users: !x"))).toEqual([expect.stringMatching(/^rules:3:/)]);
  expect(await refused(() => "")).toEqual([expect.stringMatching(/^rules:1:1: syncs: missing/)]);
  expect(await refused(() => "- a")).toEqual([expect.stringMatching(/^rules:1:1: expected/)]);
  expect(await refused((text) => text.replace("name: entry.uid", 'name: "top-secret-word +"'))).toEqual([
    expect.not.stringContaining("top-secret-word"),
  ]);
  const long = changeRules(await running(), "staff", `#${"x".repeat(300 * 1024)}`, environment);
  await expect(long).rejects.toThrow("longer than 256 KiB");
  await expect(changeRules(await running(), "nobody", "", environment)).rejects.toThrow("no sync is called nobody");
});
