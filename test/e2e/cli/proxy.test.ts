import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { makeCertificate } from "../../support/certificates.ts";
import { startHttpProxy, withCredentials } from "../../support/http-proxy.ts";
import { contentsOf, filesBelow, leakFinder } from "../../support/leaks.ts";
import { rollcall } from "../../support/rollcall/command.ts";
import { administrator, startService } from "../../support/rollcall/service.ts";
import { startScim } from "../../support/scim.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";

const credentials = "svc-proxy:hunter2%2Fsecret";
const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing.toReversed()) await close();
});

test("the source, the target and the channel are reached through the proxy, whose credentials show nowhere", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-proxy-"));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  // Only the proxy knows where these are.
  const tls = await makeCertificate({ dns: ["analytics.test", "idp.test", "hooks.test"] });
  const [ca, key] = [join(folder, "ca.pem"), join(folder, "key.pem")];
  await writeFile(ca, tls.cert);
  await writeFile(key, tls.key);
  const service = await startService({ service: { tls: { cert: ca, key } } });
  closing.push(() => service.stop());
  const scim = await startScim({ users: [{ id: "1", userName: "ada", displayName: "Ada" }], groups: [] }, { tls });
  closing.push(() => scim.close());
  const hooks = await startScripted({ "some/where": answer(204) }, tls);
  closing.push(() => hooks.close());
  const proxy = await startHttpProxy({ credentials: decodeURIComponent(credentials) });
  closing.push(() => proxy.close());

  const named = (url: string, name: string): string => `https://${name}:${new URL(url).port}${new URL(url).pathname}`;
  const config = join(folder, "rollcall.yaml");
  const data = join(folder, "data");
  const write = (own: { readonly proxy?: string }): Promise<void> =>
    writeFile(
      config,
      JSON.stringify({
        daemon: { data },
        targets: {
          analytics: {
            url: named(service.url, "analytics.test").replace(/\/$/, ""),
            username: administrator.name,
            password: administrator.password,
            ca: "ca.pem",
            ...own,
          },
        },
        sources: {
          idp: {
            connector: "scim",
            url: named(scim.url, "idp.test"),
            auth: { bearer: "t0ken-for-scim" },
            ca: "ca.pem",
          },
        },
        syncs: {
          staff: {
            from: ["idp"],
            to: "analytics",
            users: { name: "entry.userName", displayName: "entry.displayName" },
          },
        },
        notifications: {
          hook: {
            by: "webhook",
            url: named(`${hooks.url}/some/where`, "hooks.test"),
            secret: "0123456789abcdef",
            ca: "ca.pem",
          },
        },
      }),
    );
  const said: string[] = [];
  const command = async (
    args: readonly string[],
    env: NodeJS.ProcessEnv,
  ): Promise<{ code: number | null; stderr: string }> => {
    const none = Object.fromEntries(
      ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].flatMap((name) =>
        [name, name.toLowerCase()].map((each) => [each, undefined]),
      ),
    );
    const ended = await rollcall([...args, "--config", config, "--verbose"], { env: { ...none, ...env } });
    said.push(ended.stdout, ended.stderr);
    return ended;
  };

  await write({});
  const env = { HTTPS_PROXY: withCredentials(proxy, credentials) };
  expect(await command(["apply", "--yes"], env)).toMatchObject({ code: 0 });
  expect(await command(["notify", "test"], env)).toMatchObject({ code: 0 });
  const hosts = new Set(proxy.seen.map((line) => line.replace(/:\d+$/, "")));
  expect([...hosts].toSorted()).toEqual(["CONNECT analytics.test", "CONNECT hooks.test", "CONNECT idp.test"]);
  expect(hooks.arrived).toHaveLength(1);
  expect(await command(["plan"], env)).toMatchObject({ code: 0 });

  // The key of a target comes before the environment.
  await write({ proxy: withCredentials(proxy, "svc-proxy:0ther-secret") });
  expect(await command(["plan"], env)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/target analytics: .*the proxy 127\.0\.0\.1:\d+ refused the user name and password/),
  });
  const find = leakFinder({
    user: "svc-proxy",
    password: "hunter2/secret",
    written: "hunter2%2Fsecret",
    own: "0ther-secret",
  });
  const leaks = said.flatMap((text, place) => find(`command ${place}`, text));
  for (const file of await filesBelow(data))
    for (const content of await contentsOf(join(data, file))) leaks.push(...find(file, content));
  expect(leaks).toEqual([]);
});
