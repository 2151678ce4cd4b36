import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Agent } from "undici";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { administrator, call, post, sessionOf } from "../support/rollcall/service.ts";
import type { Answer } from "../support/rollcall/service.ts";
import { canMount, mountSmallDisk } from "../support/small-disk.ts";
import type { SmallDisk } from "../support/small-disk.ts";
import { group, user } from "../e2e/interface/principals.ts";
import { debugOf, startAdministration } from "../e2e/interface/syncing.ts";
import type { Administration, Listed } from "../e2e/interface/syncing.ts";

const noRoom =
  "There is not enough free disk space, and nothing was changed. Make room on the disk with the data folder of the service, then try again.";

/** A quarter of a megabyte. Every fourth user is called what is asked for. */
function people(from: number, to: number, called: string): unknown[] {
  const users = Array.from({ length: to - from }, (_, index) => {
    const id = from + index;
    const { password: _password, ...rest } = user(`user ${id}`, ["staff"]);
    return { ...rest, displayName: `${"x".repeat(100)} ${id % 4 === 0 ? called : ""}` };
  });
  return [group("staff"), ...users];
}

const before = people(0, 1000, "one");
const after = people(50, 1050, "two");

describe.skipIf(!canMount)("a disk that is full (a tmpfs, mounted by root)", () => {
  let it: Administration;
  let disk: SmallDisk;
  beforeAll(async () => {
    const folder = await mkdtemp(join(tmpdir(), "rollcall-disk-"));
    disk = await mountSmallDisk(folder, "64m");
    it = await startAdministration({ data: folder });
  });
  afterAll(async () => {
    const { code, stdout, stderr } = await it.service.stop();
    await disk[Symbol.asyncDispose]();
    await rm(disk.folder, { recursive: true });
    if (code !== 0 || /unhandled/i.test(stdout + stderr)) throw new Error(`it did not end well: ${stdout}${stderr}`);
  });

  const state = async (): Promise<Omit<Listed, "created" | "modified">[]> =>
    (await it.list()).map(({ created: _created, modified: _modified, ...rest }) => rest);
  const left = async (): Promise<string[]> => {
    const names = await Promise.all(["uploads", "answers"].map((name) => readdir(join(disk.folder, "service", name))));
    return names.flat();
  };

  const forms = {
    urlencoded: (principals: unknown[], applyChanges: string): Promise<Answer> =>
      it.post({ applyChanges, defaultPassword: "secret", principals: JSON.stringify(principals) }),
    multipart: async (principals: unknown[], applyChanges: string): Promise<Answer> => {
      const form = new FormData();
      form.set("applyChanges", applyChanges);
      form.set("defaultPassword", "secret");
      form.set("principals", JSON.stringify(principals));
      const request = new Response(form);
      const type = request.headers.get("content-type") ?? "";
      return it.send(Buffer.from(await request.arrayBuffer()), type);
    },
  };

  // From nothing at all to what the list takes while it arrives, while it is applied and while it is kept.
  test.each([
    [0, "urlencoded"],
    [64, "multipart"],
    [256, "urlencoded"],
    [384, "multipart"],
    [512, "urlencoded"],
    [640, "multipart"],
    [768, "urlencoded"],
  ] as const)(
    "B.8 with %i KiB left a list (%s) is applied as a whole, or it is a 507 and not at all",
    async (kib, form) => {
      await it.apply(before, { defaultPassword: "secret" });
      const old = await state();
      await disk.fill(kib * 1024);
      const answer = await forms[form](after, "true");
      await disk.empty();
      expect(await left()).toEqual([]);
      if (answer.status !== 200) {
        expect([answer.status, debugOf(answer)]).toEqual([507, [noRoom]]);
        expect(await state()).toEqual(old);
        expect((await forms[form](after, "true")).status).toBe(200);
      }
      expect((await it.preview(after)).usersAdded).toEqual([]);
    },
  );

  test("a list that is too large is refused while it is still being sent, and the connection can be used again", async () => {
    const connection = new Agent({ connections: 1 });
    const large = `applyChanges=true&defaultPassword=x&principals=${encodeURIComponent(JSON.stringify(people(0, 100_000, "one")))}`;
    await disk.fill(2 ** 20);
    const url = `${it.service.url}/tspublic/v1/user`;
    for (const _ of [1, 2]) {
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      const options = { session: it.session, dispatcher: connection };
      const refused = await call(`${url}/sync`, { ...options, method: "POST", headers, body: Buffer.from(large) });
      expect([refused.status, refused.headers["connection"]]).toEqual([507, "keep-alive"]);
      expect((await call(`${it.service.url}/readyz`, options)).status).toBe(200);
    }
    expect(await left()).toEqual([]);
    await disk.empty();
    await connection.close();
  });

  test("0.5 a session that cannot be written down is a 507 in both families, and is not opened", async () => {
    await disk.fill(0);
    const family = [
      ["/tspublic/v1/session/login", 204],
      ["/ts_dataservice/v1/public/session", 200],
    ] as const;
    for (const [path, done] of family) {
      const form = { username: administrator.name, password: administrator.password };
      const logins: Answer[] = [];
      // There is some room in what is there already.
      do logins.push(await post(it.service.url + path, form));
      while (logins.length < 100 && logins.at(-1)?.status === done);
      const last = logins.at(-1);
      expect([last?.status, last && sessionOf(last)]).toEqual([507, undefined]);
      expect(last?.text).toContain("Make room on the disk");
    }
    const list = await call(`${it.service.url}/tspublic/v1/user/list`, { session: it.session });
    expect([list.status, debugOf(list)]).toEqual([507, [noRoom]]);
    await disk.empty();
    expect(await it.list()).toContainEqual(expect.objectContaining({ name: administrator.name }));
    expect(
      (await post(it.service.url + family[0][0], { username: administrator.name, password: administrator.password }))
        .status,
    ).toBe(204);
  });
});
