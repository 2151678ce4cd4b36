import { expect, test } from "vitest";
import { isSecretPath } from "#config/document.ts";
import { redactor } from "#redact.ts";
import { failure, load } from "./support.ts";

const secret = "Tr0ub4dor&3";

/** A file with something in every place where a wrong value is complained about. */
function everywhere(value: string): string {
  return `service:
  listen: ${value}
  memory: ${value}
  administrator: { name: [${value}], password: [${value}] }
  tls: { cert: ${value}, key: ${value} }
  allowPlainHttp: ${value}
  prefixes: [${value}]
  sessions: { idle: ${value}, remembered: ${value} }
  logins: { attempts: ${value} }
  privileges: ${value}
targets:
  analytics: ${value}
  far: { url: ${value}, username: "", password: { x: ${value} }, ca: ${value} }
  login: { url: "https://user:${value.replaceAll('"', "")}@host", username: u, password: p }
sources:
  corp: { connector: ${value} }
  list: { connector: list, atLeast: ${value}, gzip: ${value}, mode: ${value}, auth: { by: ${value} }, entries: ${value} }
syncs:
  staff:
    from: [${value}]
    to: ${value}
    schedule: ${value}
    timezone: ${value}
    manage: ${value}
    users: { name: ${value}, displayName: ${value}, include: [${value}] }
    groups: ${value}
    defaultPassword: [${value}]
`;
}

test.each([
  ["from the environment", '"${env:SECRET}"'],
  ["from a file", '"${file:secret}"'],
  ["inside a longer value", '"x${env:SECRET}y"'],
])("no problem holds a secret %s", async (_where, value) => {
  for (const environment of [{ SECRET: secret }, { SECRET: "x9" }]) {
    const error = await failure(everywhere(value), { environment, files: { secret: `${environment.SECRET}\n` } });
    expect(error.problems.length).toBeGreaterThan(25);
    for (const line of [error.message, ...error.problems]) expect(line).not.toContain(environment.SECRET);
  }
});

test("no problem contains the value of a password, whatever is wrong with it", async () => {
  const texts = [
    `administrator: { password: [${secret}] }`,
    `administrator: { password: { ${secret}: 1 } }`,
    `administrator: { password: "${secret}" x }`,
    `administrator: { password: '${secret} }`,
    `administrator: { password: "\\q${secret}" }`,
    `administrator: { password: @${secret} }`,
    `administrator: { password: !${secret} }`,
    `administrator: { password: *${secret} }`,
    `administrator: { password: "a\${${secret}}" }`,
    `administrator: { password: "a\${${secret}" }`,
    `administrator: { password: |${secret}\n}`,
    `administrator: { password: ${secret}\n  - }`,
    `administrator:\n    password: |${secret}\n      x`,
    `administrator:\n    password: a: ${secret}`,
    `administrator:\n    password: "a" ${secret}`,
    `administrator:\n    password: }${secret}`,
    `administrator:\n    password: 1234567890`,
  ];
  for (const text of texts) {
    const error = await failure(`service:\n  nothing: 1\n  ${text}\n`);
    expect(error.problems.length).toBeGreaterThan(0);
    for (const line of [error.message, ...error.problems]) expect(line).not.toMatch(/Tr0ub|b4dor|1234567890/);
  }
});

test.each([
  "http//u:SECRET@host/x",
  "https:/u:SECRET@host",
  "ldapx://u:SECRET@host",
  "ldaps://u:SECRET@host",
  "u:SECRET@host",
  "https://u:SEC/RET@host:x",
  "https://u:SEC%52ET@host:x",
  "jdbc:postgresql://host/d?user=u&password=SECRET",
  "https://host:x/people?api_key=SECRET",
])("no problem holds the password of an address that is wrong: %s", async (url) => {
  const text = `service: { engine: { postgres: "${url}" } }
targets: { far: { url: "${url}", username: u, password: p, proxy: "${url}" } }
sources:
  corp: { connector: ldap, url: ["${url}"], base: "${url}" }
  work: { connector: google, key: { file: k }, subject: a@b.example, endpoints: { token: "${url}", directory: "${url}" } }
  idp: { connector: scim, url: "${url}", auth: { oauth: { tokenUrl: "${url}", clientId: x, clientSecret: y } } }
notifications:
  mail: { by: email, server: "${url}", from: a, to: [b] }
  chat: { by: chat, url: "${url}" }
`;
  const error = await failure(text);
  expect(error.problems.length).toBeGreaterThan(4);
  for (const line of [error.message, ...error.problems]) expect(line).not.toMatch(/SEC/);
});

test("a redactor replaces secrets, also as JSON and in URLs, the longest first", () => {
  const redact = redactor(["hunter22", "hunter22hunter22", 'a\nb"c d e', "p@ss/word", "abc"]);
  expect(redact("hunter22hunter22 and hunter22")).toBe("*** and ***");
  expect(redact(JSON.stringify({ key: 'a\nb"c d e' }))).toBe('{"key":"***"}');
  expect(redact("https://u:p%40ss%2Fword@h p@ss/word")).toBe("https://u:***@h ***");
  expect(redact(JSON.stringify(JSON.stringify({ key: 'a\nb"c d e' })))).toBe(String.raw`"{\"key\":\"***\"}"`);
  expect(redactor(["a b&ü'"])(new URLSearchParams({ password: "a b&ü'" }).toString())).toBe("password=***");
  expect(redact("abc is too short to hide, $& is no pattern")).toBe("abc is too short to hide, $& is no pattern");
  expect(redactor([])("x")).toBe("x");
});

test("what is a secret by its key is told apart from what is not", () => {
  const paths = [
    ["metrics", "token"],
    ["service", "administrator", "password"],
    ["sources", "idp", "auth", "bearer"],
    ["sources", "idp", "auth", "headers", "X-Api-Key"],
    ["sources", "idp", "auth", "headers", "Cookie"],
    ["sources", "idp", "auth", "oauth", "clientSecret"],
    ["notifications", "hook", "url"],
    ["syncs", "staff", "heartbeat"],
  ];
  expect(paths.filter((path) => !isSecretPath(path))).toEqual([]);
  const others = [
    ["sources", "token", "url"],
    ["sources", "idp", "headers"],
    ["sources", "idp", "auth", "oauth", "tokenUrl"],
    ["sources", "workspace", "endpoints", "token"],
    ["sources", "idp", "auth", "oauth", "federatedToken", "file"],
    ["syncs", "secret", "schedule"],
    ["targets", "password", "username"],
  ];
  expect(others.filter(isSecretPath)).toEqual([]);
});

test("a secret of less than eight characters is warned about, with its line", async () => {
  const text = `service:
  administrator: { password: "\${env:PASSWORD}" }
targets:
  far: { url: https://far.example.com, username: u, password: "1234567", proxy: "http://u:short@proxy" }
  near: { url: https://near.example.com, username: u, password: "12345678" }
`;
  const { configuration } = await load(text, { environment: { PASSWORD: "hunter2" } });
  expect(configuration.warnings).toEqual(
    ["2:30: service.administrator.password", "4:63: targets.far.password", "4:81: targets.far.proxy"].map((place) =>
      expect.stringMatching(new RegExp(`rollcall\\.yaml:${place}: a secret of less than 8 characters`)),
    ),
  );
  expect(configuration.warnings.join("")).not.toMatch(/hunter2|1234567|short@/);
});
