import { expect, test } from "vitest";
import { targetConnectors } from "#connectors/index.ts";
import { load, problemsOf, valid, withSync } from "./support.ts";
import type { Surroundings } from "./support.ts";

/** The default password of a configuration that gives it as `value`. */
async function passwordOf(value: string, surroundings: Surroundings = {}): Promise<string | undefined> {
  return (await load(withSync(`defaultPassword: ${value}`), surroundings)).configuration.syncs["staff"]
    ?.defaultPassword;
}

test("a variable is replaced by its value, alone or within a text", async () => {
  const environment = { NAME: "rose", EMPTY: "" };
  expect(await passwordOf("${env:NAME}", { environment })).toBe("rose");
  expect(await passwordOf('"a ${env:NAME} is a ${env:NAME}"', { environment })).toBe("a rose is a rose");
  expect(await passwordOf("x${env:EMPTY}y", { environment })).toBe("xy");
});

test("a default is for a variable that is unset or empty", async () => {
  const environment = { EMPTY: "", SET: "set" };
  expect(await passwordOf("${env:UNSET:-a default}", { environment })).toBe("a default");
  expect(await passwordOf("${env:EMPTY:-a default}", { environment })).toBe("a default");
  expect(await passwordOf("${env:SET:-a default}", { environment })).toBe("set");
  expect(await passwordOf("${env:UNSET:-}", { environment })).toBeUndefined();
});

test("a file stands for its text, without one newline at its end", async () => {
  const files = { "secrets/password": "one\ntwo\n\n", windows: "x\r\n", bom: "\uFEFFx" };
  expect(await passwordOf("${file:secrets/password}", { files })).toBe("one\ntwo\n");
  expect(await passwordOf("${file:./windows}", { files })).toBe("x");
  expect(await passwordOf("${file:bom}", { files })).toBe("x");
});

test.each(["123", "true", "null", "a # b", "a: b", "- x", "&a", "*a", "{}", '"quoted"', "1e5", "~", "0x1F"])(
  "what is filled in is a text, never YAML: %s",
  async (value) => {
    expect(await passwordOf("${env:VALUE}", { environment: { VALUE: value } })).toBe(value);
    expect(await passwordOf("'${file:value}'", { files: { value } })).toBe(value);
  },
);

test("what is filled in is not filled in again", async () => {
  const environment = { A: "${env:B}", B: "secret" };
  expect(await passwordOf("${env:A}", { environment })).toBe("${env:B}");
  expect(await passwordOf("${env:NONE:-$}{env:B}", { environment })).toBe("${env:B}");
});

test("$${ is the text ${", async () => {
  expect(await passwordOf("a$${env:B}")).toBe("a${env:B}");
  expect(await passwordOf("$$${env:B}", { environment: { B: "b" } })).toBe("$${env:B}");
  expect(await passwordOf("a$b $ {x}")).toBe("a$b $ {x}");
});

test("a value that is wholly a substitution is a number or a boolean where one is wanted", async () => {
  const environment = { ATTEMPTS: "7", PLAIN: "True", PORT: "0", FLAG: "false", TEXT: "5", MODE: "2", BIG: "12.5" };
  const text = `service:
  listen: 0.0.0.0:\${env:PORT}
  allowPlainHttp: \${env:PLAIN}
  logins: { attempts: "\${env:ATTEMPTS}" }
sources:
  corp:
    connector: list
    atLeast: \${env:UNSET:-3}
    gzip: \${env:FLAG}
    token: \${env:TEXT}
    either: \${env:TEXT}
    server: { host: "\${env:TEXT}", port: "\${env:BIG}" }
    mode: { only: "\${env:TEXT}", depth: "\${env:MODE}" }
`;
  const { configuration } = await load(text, { environment });
  expect(configuration.service).toMatchObject({
    listen: { host: "0.0.0.0", port: 0 },
    allowPlainHttp: true,
    logins: { attempts: 7 },
  });
  expect(configuration.sources["corp"]?.options).toEqual({
    atLeast: 3,
    gzip: false,
    token: "5",
    either: "5",
    server: { host: "5", port: 12.5 },
    mode: { only: "5", depth: 2 },
  });
});

test("what is not wholly a substitution, or no number, is not converted", async () => {
  const text = `sources:
  corp:
    connector: list
    atLeast: "1\${env:ONE}"
    gzip: "\${env:ONE}"
    server: { host: x, port: "\${env:WORD}" }
  quoted:
    connector: list
    atLeast: "1"
`;
  expect(await problemsOf(text, { environment: { ONE: "1", WORD: "many" } })).toEqual([
    "rollcall.yaml:4:14: sources.corp.atLeast: expected a whole number (the value comes from ${env:ONE})",
    "rollcall.yaml:5:11: sources.corp.gzip: expected true or false (the value comes from ${env:ONE})",
    "rollcall.yaml:6:30: sources.corp.server.port: expected a number (the value comes from ${env:WORD})",
    'rollcall.yaml:9:14: sources.quoted.atLeast: expected a whole number, not "1"',
  ]);
});

test("of a value that is not right because its variable is empty, that is said", async () => {
  const text = valid.replace("embedded", '{ url: "https://h:8443", username: u, password: "${env:PW}" }');
  expect(await problemsOf(text, { environment: { PW: "" } })).toEqual([
    expect.stringMatching(
      /targets\.analytics\.password: expected .* \(the value comes from \$\{env:PW\}, and is empty\)$/,
    ),
  ]);
});

test("an unset variable, an unreadable file and what is no substitution are problems at their place, each once", async () => {
  const text = `service:
  listen: \${env:LISTEN}
  data: \${file:no/such}
  memory: \${file:.}
  administrator:
    name: \${HOME}
    password: a\${b
  logins:
    window: \${env:A-B}
    lockout: "\${env:WINDOW:-5m #}"
`;
  const forms = "expected ${env:NAME}, ${env:NAME:-default} or ${file:/path}; for the text ${ itself write $${";
  const problems = await problemsOf(text);
  expect(problems.map((problem) => problem.replace(" (FOLDER)", ""))).toEqual([
    "rollcall.yaml:2:11: service.listen: the environment variable LISTEN is not set; set it, or give a default: ${env:LISTEN:-default}",
    "rollcall.yaml:3:9: service.data: ${file:no/such} cannot be read: it does not exist (no/such)",
    "rollcall.yaml:4:11: service.memory: ${file:.} cannot be read: it is a folder",
    `rollcall.yaml:6:11: service.administrator.name: unknown substitution; ${forms}`,
    `rollcall.yaml:7:15: service.administrator.password: \${ without its closing }; ${forms}`,
    `rollcall.yaml:9:13: service.logins.window: unknown substitution; ${forms}`,
    'rollcall.yaml:10:14: service.logins.lockout: expected a duration like 90s, 15m, 3h, 7d, not "5m #"',
  ]);
});

test("secrets are the values from outside and whatever stands under a password", async () => {
  const { configuration } = await load(
    `service:
  listen: 127.0.0.1:\${env:PORT}
  data: \${env:DATA:-somewhere}
  administrator: { password: literal, name: "\${env:NOBODY:-admin}" }
sources:
  corp: { connector: list, token: a-token, server: { host: "\${file:host}", port: 1 } }
${valid.slice(valid.indexOf("targets:"), valid.indexOf("sources:"))}  other: { url: "https://x", username: u, password: "\${env:UNSET:-fallback}" }
`,
    { environment: { PORT: "1234", UNUSED: "unused", NOBODY: "" }, files: { host: "inside\n" } },
  );
  expect([...configuration.secrets].sort()).toEqual(["1234", "a-token", "fallback", "inside", "literal"]);
});

test.each(["url", "auth", "profile"])(
  "one that fails in the %s of a target with a connector is one problem",
  async (key) => {
    const options: Record<string, string> = {
      url: "https://app.example/scim",
      auth: "{ bearer: t }",
      profile: "generic",
    };
    const target = { connector: "scim", ...options, [key]: "${env:NONE}" };
    const lines = Object.entries(target).map(([name, value]) => `    ${name}: ${value}\n`);
    const text = valid.replace("  analytics: embedded\n", `  analytics:\n${lines.join("")}`);
    expect(await problemsOf(text, { targetConnectors })).toEqual([
      expect.stringMatching(new RegExp(`: targets\\.analytics\\.${key}: .*NONE is not set`)),
    ]);
  },
);
