import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { makeCertificate } from "../../support/certificates.ts";
import { startLdapProxy } from "../../support/ldap/proxy.ts";
import { ldifEntry } from "../../support/ldap/ldif.ts";
import { noOpenLdap, type OpenLdap, type OpenLdapOptions, reader, startOpenLdap } from "../../support/ldap/openldap.ts";
import { organizationalUnit, people, userDn } from "./ldap-medium.ts";
import { failureOf, openSource, readAll } from "./ldap-reading.ts";

const skip = (await noOpenLdap()) !== undefined;

async function serve(options: OpenLdapOptions = {}): Promise<OpenLdap> {
  const ada = ldifEntry(userDn("ada"), { objectClass: "inetOrgPerson", cn: "Ada", sn: "L" });
  const server = await startOpenLdap({ ...options, ldif: [organizationalUnit(people), ada] });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-ldap-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

const users = { base: people };
const context = { signal: new AbortController().signal, warn: () => {} };

/** Nothing listens there. */
async function freePort(): Promise<number> {
  const proxy = await startLdapProxy(1);
  await proxy[Symbol.asyncDispose]();
  return proxy.port;
}

test("asks the next server when one does not answer", { skip }, async () => {
  const server = await serve();
  const url = [`ldap://127.0.0.1:${await freePort()}`, server.url];
  expect((await readAll({ url, bind: reader, users })).users).toHaveLength(1);
  await server.kill();
  const failure = await failureOf(readAll({ url, bind: reader, users }));
  expect(failure.advice).toBe("retry");
  for (const each of url) expect(failure.message).toContain(each);
});

test("asks the next server when one accepts and says nothing", { skip }, async () => {
  const server = await serve();
  const silent = await startLdapProxy(server.port);
  onTestFinished(() => silent[Symbol.asyncDispose]());
  silent.set({ response: () => "stall" });
  const source = { url: [silent.url, server.url], bind: reader, users, limits: { connect: "1s" } };
  expect((await readAll(source)).users).toHaveLength(1);
  expect(silent.connections).toBe(1);
});

test("does not try a refused password on every server", { skip }, async () => {
  const [one, other] = await Promise.all([serve(), serve()]);
  const counting = await startLdapProxy(other.port);
  onTestFinished(() => counting[Symbol.asyncDispose]());
  const bind = { dn: reader.dn, password: "wrong-is-secret" };
  const failure = await failureOf(readAll({ url: [one.url, counting.url], bind, users }));
  expect(failure.message).toMatch(/invalidCredentials/);
  expect(failure.message).not.toContain(bind.password);
  expect(counting.connections).toBe(0);
});

test("gives up a server that accepts and says nothing", { skip }, async () => {
  const server = createServer((socket) => socket.on("error", () => {}));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  for (const scheme of ["ldap", "ldaps"]) {
    const source = { url: `${scheme}://127.0.0.1:${port}`, bind: reader, users, limits: { connect: "1s" } };
    const failure = await failureOf(readAll(source));
    expect(failure.message).toMatch(/1 s/);
    expect(failure.advice).toBe("retry");
  }
});

test("does not know another protocol", { skip }, async () => {
  const server = await serve();
  const plainAsTls = await failureOf(readAll({ url: `ldaps://localhost:${server.port}`, bind: reader, users }));
  expect(plainAsTls.message).toMatch(/TLS|closed the connection|lost/);
  const tlsAsPlain = server.ldapsUrl.replace("ldaps:", "ldap:");
  expect((await failureOf(readAll({ url: tlsAsPlain, bind: reader, users, limits: { connect: "2s" } }))).advice).toBe(
    "retry",
  );
});

const protections = [
  { how: "ldaps", source: ({ ldapsUrl }: OpenLdap) => ({ url: ldapsUrl }), tls: {} },
  {
    how: "StartTLS",
    source: ({ url }: OpenLdap) => ({ url: url.replace("127.0.0.1", "localhost") }),
    tls: { starttls: true },
  },
];

for (const { how, source, tls } of protections) {
  test(`${how}: refuses a certificate that nobody vouches for`, { skip }, async () => {
    const server = await serve();
    const failure = await failureOf(readAll({ ...source(server), tls, bind: reader, users }));
    expect(failure.message).toMatch(/not from an authority that is trusted here.*the source's `tls\.ca`/);
    expect(failure.advice).toBe("fix");
  });

  test(`${how}: refuses a certificate of another name, unless that name is expected`, { skip }, async () => {
    const server = await serve({
      certificate: (issuer) => makeCertificate({ dns: ["ldap.example.com"] }, { issuer }),
    });
    const ca = server.caFile;
    const failure = await failureOf(readAll({ ...source(server), tls: { ...tls, ca }, bind: reader, users }));
    expect(failure.message).toMatch(
      /the certificate of localhost:\d+ is for other names \(DNS:ldap\.example\.com\).*tls\.serverName/,
    );
    const named = { ...tls, ca, serverName: "ldap.example.com" };
    expect((await readAll({ ...source(server), tls: named, bind: reader, users })).users).toHaveLength(1);
  });

  test(`${how}: refuses an expired certificate`, { skip }, async () => {
    const server = await serve({
      certificate: (issuer) => makeCertificate({ dns: ["localhost"] }, { issuer, expired: true }),
    });
    const failure = await failureOf(
      readAll({ ...source(server), tls: { ...tls, ca: server.caFile }, bind: reader, users }),
    );
    expect(failure.message).toMatch(/CERT_HAS_EXPIRED/);
  });

  test(`${how}: accepts any certificate only where that is asked for, and warns every time`, { skip }, async () => {
    const server = await serve({
      certificate: (issuer) => makeCertificate({ dns: ["ldap.example.com"] }, { issuer, expired: true }),
    });
    const options = { ...source(server), tls: { ...tls, insecure: true }, bind: reader, users };
    for (let read = 1; read <= 2; read++) {
      const reading = await readAll(options);
      expect(reading.users).toHaveLength(1);
      expect(reading.warnings.join("\n")).toMatch(/insecure/);
    }
  });

  test(`${how}: shows a client certificate, and says when one is wanted`, { skip }, async () => {
    const server = await serve({ clients: "demand" });
    const folder = await makeFolder();
    const { cert, key } = await makeCertificate({ dns: ["reader"] }, { issuer: server.authority });
    await writeFile(join(folder, "reader.pem"), cert);
    await writeFile(join(folder, "reader.key"), key);
    const options = { ...source(server), bind: { sasl: "EXTERNAL" }, users };
    const without = await failureOf(readAll({ ...options, tls: { ...tls, ca: server.caFile } }));
    expect(without.message).toMatch(/certificate|closed the connection|lost/);
    // Relative to the configuration.
    const shown = { ...tls, ca: server.caFile, cert: "reader.pem", key: "reader.key" };
    expect((await readAll({ ...options, tls: shown }, { folder })).users).toHaveLength(1);
  });
}

test("names the files of certificates that are missing, none, or not each other's", { skip }, async () => {
  const folder = await makeFolder();
  await writeFile(join(folder, "ca.pem"), "not a certificate");
  const source = { url: "ldaps://localhost:1", bind: reader, users };
  const missing = await failureOf(readAll({ ...source, tls: { ca: "missing.pem" } }, { folder }));
  expect(missing.message).toMatch(/missing\.pem/);
  expect(missing.advice).toBe("fix");
  const none = await failureOf(readAll({ ...source, tls: { ca: "ca.pem" } }, { folder }));
  expect(none.message).toMatch(/ca\.pem/);
  expect(none.advice).toBe("fix");
  const [one, other] = [await makeCertificate({ dns: ["one"] }), await makeCertificate({ dns: ["other"] })];
  await writeFile(join(folder, "one.pem"), one.cert);
  await writeFile(join(folder, "other.key"), other.key);
  const tls = { cert: "one.pem", key: "other.key" };
  const pair = await failureOf(readAll({ ...source, tls }, { folder }));
  expect(pair.message).toMatch(/one\.pem and other\.key/);
  expect(pair.advice).toBe("fix");
});

test("reads over a socket as the user of the operating system", { skip }, async () => {
  const uid = `gidNumber=${process.getgid?.()}+uidNumber=${process.getuid?.()},cn=peercred,cn=external,cn=auth`;
  const server = await serve({
    access: [`access to * by dn.exact="${uid}" read by anonymous auth by * none`],
  });
  const url = server.ldapiUrl;
  expect((await readAll({ url, bind: { sasl: "EXTERNAL" }, users })).users).toHaveLength(1);
});

test("reads what everybody may read without a login", { skip }, async () => {
  const server = await serve({ access: ["access to * by * read"] });
  expect((await readAll({ url: server.url, users })).users).toHaveLength(1);
  const closed = await serve();
  expect((await failureOf(readAll({ url: closed.url, users }))).message).toMatch(/insufficientAccess|may not be seen/);
});

test("says that a server wants TLS", { skip }, async () => {
  const server = await serve({ global: ["security ssf=128"] });
  const failure = await failureOf(readAll({ url: server.url, bind: reader, users }));
  expect(failure.message).toMatch(/confidentialityRequired.*starttls/s);
});

test("reads from a server that does not page as much as it gives, and fails beyond", { skip }, async () => {
  const server = await startOpenLdap({
    ldif: [
      organizationalUnit(people),
      ...Array.from({ length: 30 }, (_, index) =>
        ldifEntry(userDn(`user${index}`), { objectClass: "inetOrgPerson", cn: "x", sn: "x" }),
      ),
    ],
    database: [`limits dn.exact="${reader.dn}" size.pr=noEstimate size.soft=100 size.hard=100 size.prtotal=disabled`],
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const options = { url: server.url, bind: reader, users, pageSize: 10 };
  const outcome = await readAll(options).catch((error: unknown) => error);
  if (outcome instanceof Error) expect(outcome.message).toMatch(/unwillingToPerform|sizeLimitExceeded|pag/);
  else expect(outcome).toMatchObject({ users: { length: 30 } });
});

test("describes what it reached, how it is protected and as whom", { skip }, async () => {
  const server = await serve();
  const tls = { ca: server.caFile };
  const lines = await openSource({ url: server.ldapsUrl, tls, bind: reader, users }).describe?.(context);
  expect(lines?.join("\n")).toContain(server.ldapsUrl);
  expect(lines?.join("\n")).toContain(reader.dn);
  expect(lines?.join("\n")).toMatch(/TLS/);
  expect(lines?.join("\n")).not.toContain(reader.password);
  expect(await server.connections()).toBe(0);
});
