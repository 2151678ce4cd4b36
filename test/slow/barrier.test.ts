import { afterAll, beforeAll, expect, test } from "vitest";
import { startProxy } from "../support/proxy.ts";
import type { Proxy } from "../support/proxy.ts";
import { login, post, startService } from "../support/rollcall/service.ts";
import type { TestService } from "../support/rollcall/service.ts";
import { by, createInstallation, versionOf } from "../support/rollcall/installation.ts";
import type { Installation } from "../support/rollcall/installation.ts";

/**
 * Lists of users with passwords of their own, which take a while to hash: they keep the service's queue full while it has
 * time for everything else.
 */
const lists = { count: 4, users: 40 };

let service: TestService;
let proxy: Proxy;
let installation: Installation;
/** What happened, in its order. */
const order: string[] = [];
/** The next list that is to be applied is the one. */
let isReady = false;
const sent = Promise.withResolvers<void>();
let isBack = false;

beforeAll(async () => {
  service = await startService();
  proxy = await startProxy(service.url, {
    lingering: true,
    before: async (bytes) => {
      if (isBack) order.push("asked");
      if (!isReady || !/applyChanges\W+true/.test(bytes.toString("latin1"))) return;
      isReady = false;
      // Somebody else's lists get there before it: all of them have when the first is answered.
      await syncOthers();
      sent.resolve();
    },
  });
  installation = await createInstallation(() => ({ ...service, url: proxy.url }), { staff: {} });
});
afterAll(async () => {
  await installation.remove();
  await proxy.close();
  await service.stop();
});

/** Sends all of them, and waits for the first answer. */
async function syncOthers(): Promise<void> {
  const session = await login(service.url);
  const send = async (list: number): Promise<void> => {
    const principals = Array.from({ length: lists.users }, (_, index) => ({
      name: `other-${list}-${index}`,
      displayName: "Somebody else",
      principalTypeEnum: "LOCAL_USER",
      password: `secret-${index}`,
    }));
    const form = { applyChanges: "true", remoteDeleted: "false", principals: JSON.stringify(principals) };
    const { status } = await post(`${service.url}/tspublic/v1/user/sync`, form, { session });
    order.push(`others ${status}`);
  };
  await Promise.race(Array.from({ length: lists.count }, (_, list) => send(list)));
}

test("B.8 a list that still waits in the service when its sender comes back is waited for: what became of it is what it is then", async () => {
  await installation.write("staff", 3);
  await installation.converge("staff");
  await installation.write("staff", 4);
  isReady = true;
  const { signal, said } = await installation.kill({
    action: { do: "begin", sync: "staff" },
    point: "request bodySent",
  });
  expect(signal, said).toBe("SIGKILL");
  await sent.promise;
  isBack = true;
  const [run] = (await installation.recover("staff")).slice(-1);
  order.push("known");
  // It was asked about while it waited; before that was over, nothing was known.
  expect(order.filter((each) => each === "others 200")).toHaveLength(lists.count);
  expect(order.indexOf("asked")).toBeLessThan(order.lastIndexOf("others 200"));
  expect(order.at(-1)).toBe("known");
  expect(run).toMatchObject({ state: "applied", recovery: expect.stringContaining("all of it has arrived"), by });
  expect(await installation.directory("staff")).toEqual(versionOf("staff", 4));
});
