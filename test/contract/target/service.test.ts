import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { listToFile } from "#sync/planning/target.ts";
import { openTarget } from "#client/target.ts";
import { RefusedError } from "#errors.ts";
import { listedPrincipal, syncResult } from "#wire/administration.ts";
import { makeCertificate } from "../../support/certificates.ts";
import { administrator, login, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";
import { bench, defaultPassword, soon } from "./harness.ts";

let service: TestService;

beforeAll(async () => {
  service = await startService();
});

afterAll(async () => {
  await service.stop();
});

const credentials = { username: administrator.name, password: administrator.password };

function user(name: string, groupNames: string[] = []): Record<string, unknown> {
  return { name, displayName: `${name} \uFEFF😀 "%+&=`, mail: "", principalTypeEnum: "LOCAL_USER", groupNames };
}

/** Everything that is there, as names. */
async function namesIn(file: string): Promise<string[]> {
  return listedPrincipal
    .array()
    .parse(JSON.parse(await readFile(file, "utf8")))
    .map(({ name }) => name);
}

test("list, preview, apply and list again; the list sent back changes nothing", async () => {
  const { client, destination, principals, answer } = await bench();
  const opened = client(service.url, { prefix: "/callosum/v1", credentials });
  await opened.list(destination, soon());
  const before = await namesIn(destination);
  expect(before).toEqual(["admin", "Administrator", "All"]);

  const wanted = [
    user("Änne", ["ldap-staff"]),
    { name: "ldap-staff", displayName: "Staff", principalTypeEnum: "LOCAL_GROUP" },
  ];
  const submission = {
    principals: await principals(JSON.stringify(wanted)),
    applyChanges: false,
    deleteOthers: true,
    defaultPassword,
  };
  await opened.sync(submission, destination, soon());
  const preview = syncResult.parse(JSON.parse(await answer()));
  expect(preview).toEqual({
    usersAdded: ["Änne"],
    usersDeleted: [],
    usersUpdated: [],
    groupsAdded: ["ldap-staff"],
    groupsDeleted: [],
    groupsUpdated: [],
  });
  await opened.list(destination, soon());
  expect(await namesIn(destination)).toEqual(before);

  await opened.sync({ ...submission, applyChanges: true }, destination, soon());
  expect(JSON.parse(await answer())).toEqual(preview);
  await opened.list(destination, soon());
  expect(await namesIn(destination)).toEqual(["admin", "Änne", "Administrator", "All", "ldap-staff"]);

  const list = await answer();
  await opened.sync({ ...submission, principals: await principals(list) }, destination, soon());
  expect(Object.values(syncResult.parse(JSON.parse(await answer()))).flat()).toEqual([]);
  await login(service.url, { name: "Änne", password: defaultPassword });
  await opened.logout(soon());
});

test("B.5 what the service finds wrong with a list is passed on", async () => {
  const { client, destination, principals, failure } = await bench();
  const wrong = [user("a", ["nowhere"]), { ...user("b"), displayName: "" }];
  const submission = {
    principals: await principals(JSON.stringify(wrong)),
    applyChanges: true,
    deleteOthers: true,
    defaultPassword,
  };
  const error = await failure(client(service.url, { credentials }).sync(submission, destination, soon()));
  expect(error).toBeInstanceOf(RefusedError);
  expect(error.message).toMatch(
    /was refused \(400\).*\n {2}principals\[0\]\.groupNames.*\n {2}principals\[1\]\.displayName/s,
  );
});

test("a wrong password and a missing privilege are refused", async () => {
  const { client, destination, principals, failure } = await bench();
  const wrong = client(service.url, { credentials: { username: "admin", password: "wrong" } });
  expect((await failure(wrong.list(destination, soon()))).message).toBe(
    "target analytics: login as admin was refused (401): check username and password",
  );
  const opened = client(service.url, { credentials });
  await opened.login(soon());
  const file = await principals(JSON.stringify([user("bob")]));
  await opened.sync({ principals: file, applyChanges: true, deleteOthers: true, defaultPassword }, destination, soon());
  const bob = client(service.url, { credentials: { username: "bob", password: defaultPassword } });
  expect((await failure(bob.list(destination, soon()))).message).toBe(
    "target analytics: user/list was refused (403): bob lacks the administration privilege",
  );
});

test("a session that ended in between is opened again; one that was given is not", async () => {
  await using shortLived = await startService({ service: { sessions: { idle: "4s", remembered: "7d" } } });
  const { client, destination, principals, answer, log } = await bench();
  const opened = client(shortLived.url, { credentials });
  await opened.list(destination, soon());
  const given = client(shortLived.url, { credentials: { session: await login(shortLived.url) } });
  await given.list(destination, soon());
  await setTimeout(5000);
  await expect(given.list(destination, soon())).rejects.toThrow(
    "user/list was refused (401): the session is no longer valid",
  );
  const submission = { principals: await principals("[]"), applyChanges: true, deleteOthers: true, defaultPassword };
  await opened.sync(submission, destination, soon());
  expect(syncResult.parse(JSON.parse(await answer())).usersDeleted).toEqual([]);
  expect(log).toEqual(["target analytics: user/sync (apply): the session has ended; logging in again"]);
});

test("the embedded service over TLS: its certificate is pinned, its own session is given and outlives the target", async () => {
  const { client, destination, log } = await bench();
  const folder = await mkdtemp(join(tmpdir(), "rollcall-tls-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const certificate = await makeCertificate({ dns: ["analytics.example.com"] });
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  await Promise.all([writeFile(cert, certificate.cert), writeFile(key, certificate.key)]);
  await using service = await startService({ service: { tls: { cert, key } } });
  const { session } = JSON.parse(await readFile(join(service.data, "service.json"), "utf8")) as { session: string };
  for (let round = 0; round < 2; round += 1) {
    const target = openTarget({
      name: "analytics",
      url: service.url,
      prefix: "",
      credentials: { session },
      ca: certificate.cert,
      pinned: true,
      log: (message) => log.push(message),
    });
    expect(await target.check(soon())).toHaveLength(3);
    await listToFile(target, destination, soon());
    expect(await namesIn(destination)).toContain("admin");
    await target.close();
  }
  await expect(client(service.url, { credentials }).list(destination, soon())).rejects.toThrow("the target's `ca`");
});

test("the end of a target is not held up by a service that has gone", async () => {
  const gone = await startService();
  const { destination, log } = await bench();
  const options = { name: "analytics", url: gone.url, prefix: "", credentials };
  const target = openTarget({ ...options, log: (message) => log.push(message) });
  await listToFile(target, destination, soon());
  await gone.kill();
  await target.close();
  expect(log).toEqual([expect.stringMatching(/^target analytics: the session was not ended: .*ECONNREFUSED/)]);
});
