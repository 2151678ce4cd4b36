import { expect, test } from "vitest";
import { connectors } from "#connectors/index.ts";
import { fingerprint } from "#config/differences.ts";
import { load, problemsOf } from "./support.ts";

const credentials = "svc-proxy:hunter2%2Fsecret";

/** A file with a proxy for a target, a source and two channels. */
const everywhere = (proxy: string): string => `targets:
  far: { url: https://far.example.com, username: u, password: opensesame, proxy: ${proxy} }
sources:
  idp: { connector: scim, url: https://idp.example.com, proxy: ${proxy} }
notifications:
  hook: { by: webhook, url: https://hooks.example.com/x, secret: 0123456789abcdef, proxy: ${proxy} }
  chat: { by: chat, url: https://chat.example.com/x, proxy: ${proxy} }
`;

test.each([
  [`http://${credentials}@proxy.example.com:3128`, `http://${credentials}@proxy.example.com:3128`],
  ["none", false],
  ["false", false],
  ['"${env:PROXY}"', "https://proxy.example.com/"],
  ['"${env:NONE:-none}"', false],
])("proxy: %s", async (written, expected) => {
  const environment = { PROXY: "https://proxy.example.com/" };
  const { configuration } = await load(everywhere(written), { connectors, environment });
  const { targets, sources, notifications } = configuration;
  const all = [targets["far"], sources["idp"]?.options, notifications["hook"], notifications["chat"]];
  expect(all).toEqual(all.map(() => expect.objectContaining({ proxy: expected })));
});

test("the credentials are secrets, and the proxy's host is none", async () => {
  const { configuration } = await load(everywhere(`http://${credentials}@proxy.example.com:3128`), { connectors });
  expect(configuration.secrets).toEqual(expect.arrayContaining(["hunter2%2Fsecret", "hunter2/secret", credentials]));
  const text = JSON.stringify(fingerprint(configuration, Buffer.from("key")));
  expect(text).not.toMatch(/hunter2|svc-proxy/);
  const plain = await load(everywhere("http://proxy.example.com:3128"), { connectors });
  expect(JSON.stringify(fingerprint(plain.configuration, Buffer.from("key")))).toContain("proxy.example.com:3128");
});

test.each([
  `socks5://${credentials}@proxy.example.com`,
  `http://${credentials}@proxy.example.com/path`,
  "http://svc-proxy:hunter2%ZZ@proxy.example.com",
  "svc-proxy:hunter2@proxy.example.com:3128",
  "true",
])("what is no proxy is said to be none, without its credentials: %s", async (written) => {
  const problems = await problemsOf(everywhere(written), { connectors });
  expect(problems).toHaveLength(4);
  for (const problem of problems) {
    expect(problem).toMatch(
      /^rollcall.yaml:\d+:\d+: .*proxy: expected a URL like http:\/\/proxy\.example\.com:3128, or none/,
    );
    expect(problem).not.toMatch(/hunter2/);
  }
});

test("LDAP and files have no proxy", async () => {
  const text = `sources:
  corp:
    connector: ldap
    url: ldaps://ldap.example.com
    users: { base: "dc=example" }
    proxy: none
  files:
    connector: scim
    files: { users: users.json }
    proxy: http://proxy.example.com:3128
`;
  expect(await problemsOf(text, { connectors, files: { "users.json": "[]" } })).toEqual([
    expect.stringMatching(/^rollcall.yaml:6:12: sources.corp.proxy: LDAP does not go through HTTP proxies; remove it/),
    expect.stringMatching(/^rollcall.yaml:10:12: sources.files.proxy: is for a server, not for files/),
  ]);
});
