import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { UnavailableError } from "#errors.ts";
import type { Node } from "#state/postgres/nodes.ts";
import { endLease, sharedDatabaseOfEachTest, thrown } from "./support.ts";

const shared = sharedDatabaseOfEachTest();

const names = async (): Promise<string[]> =>
  (await shared.postgres.rows<{ name: string }>("SELECT name FROM rollcall.claims ORDER BY name")).map(
    ({ name }) => name,
  );

test("a lease is renewed as long as the process lives, and given back at its end", async () => {
  // Long enough for a busy machine: one that is lost is not renewed any more.
  const node = await shared.node(3_000);
  const expires = async (): Promise<number> => {
    const [row] = await shared.postgres.rows<{ left: number }>(
      "SELECT extract(epoch FROM expires)::float8 AS left FROM rollcall.nodes WHERE id = $1",
      [node.id()],
    );
    return row?.left ?? 0;
  };
  const first = await expires();
  await expect.poll(expires).toBeGreaterThan(first + 0.5);
  node.check();
  // Asking for a claim also removes the nodes whose lease has ended.
  expect(await (await shared.node()).claim("leader")).toBe(true);
  expect(await expires()).toBeGreaterThan(0);
  await node.close();
  expect(await expires()).toBe(0);
});

test("a claim has one node, which may claim it again, and ends with its release or its node", async () => {
  const [one, other] = [await shared.node(), await shared.node()];
  const both = await Promise.all([one.claim("target"), other.claim("target")]);
  expect(both.filter(Boolean)).toHaveLength(1);
  const [owner, rest] = both[0] ? [one, other] : [other, one];
  expect(await owner.claim("target")).toBe(true);
  expect(await rest.claim("target")).toBe(false);
  expect(await rest.whileClaimed("another", () => owner.claim("another"))).toBe(false);
  expect(await owner.claim("another")).toBe(true);
  await owner.close();
  expect([await rest.claim("target"), await rest.claim("another")]).toEqual([true, true]);
});

test("a lease from before the clock was set back ends soon, unless its node lives and renews it", async () => {
  const [one, gone, other] = [await shared.node(10_000), await shared.node(), await shared.node(60_000)];
  await shared.postgres.rows("UPDATE rollcall.nodes SET expires = expires + interval '2 days' WHERE id = $1", [
    gone.id(),
  ]);
  await one.claim("leader");
  const left = await shared.postgres.rows<{ id: bigint; seconds: number }>(
    "SELECT id, extract(epoch FROM expires - clock_timestamp())::integer AS seconds FROM rollcall.nodes",
  );
  const secondsOf = (node: Node): number => left.find(({ id }) => id === node.id())?.seconds ?? 0;
  expect(secondsOf(gone)).toBeGreaterThan(80);
  expect(secondsOf(gone)).toBeLessThanOrEqual(100);
  // That of another that lives is longer than its own, and stays.
  expect(secondsOf(other)).toBeGreaterThan(40);
});

test("where the clock jumps and all leases have ended, nobody is removed before it could renew its own", async () => {
  const [one, other] = [await shared.node(), await shared.node(10_000)];
  await one.claim("target");
  const jump = (): Promise<unknown> =>
    shared.postgres.rows("UPDATE rollcall.nodes SET expires = clock_timestamp() - interval '1 second'");
  const lasts = async (node: Node): Promise<boolean> =>
    (
      await shared.postgres.rows("SELECT FROM rollcall.nodes WHERE id = $1 AND expires > clock_timestamp()", [
        node.id(),
      ])
    ).length > 0;
  await jump();
  await expect.poll(() => lasts(other)).toBe(true);
  expect(await other.claim("target")).toBe(false);
  // Or it notices before it has renewed its own, and takes another one.
  await jump();
  expect((await thrown(other.claim("target"))).message).toContain("has lost its lease");
  await other.join();
  expect(await other.claim("target")).toBe(false);
  // Or it has only just begun.
  await jump();
  const late = await shared.node(10_000);
  expect(await late.claim("target")).toBe(false);
});

test("a node whose lease has ended by the database's clock loses its claims, and may write nothing", async () => {
  const [one, other] = [await shared.node(), await shared.node()];
  await one.claim("leader");
  await endLease(shared.postgres, one);
  // Before anybody has removed it, too.
  const refused = await thrown(one.fenced(async (transaction) => transaction.run("CREATE TABLE public.never ()")));
  expect(refused).toBeInstanceOf(UnavailableError);
  expect(refused.message).toContain("has lost its lease");
  expect(one.lost().aborted).toBe(true);
  expect(() => one.check()).toThrow("has lost its lease");
  expect(await other.claim("leader")).toBe(true);
  expect((await thrown(one.claim("leader"))).message).toContain("has lost its lease");
  expect(await shared.postgres.rows("SELECT FROM pg_tables WHERE tablename = 'never'")).toEqual([]);

  const before = one.id();
  await one.join();
  expect(one.id()).toBeGreaterThan(other.id());
  expect(one.id()).not.toBe(before);
  expect(one.lost().aborted).toBe(false);
  expect(await one.claim("leader")).toBe(false);
  await one.fenced((transaction) => transaction.run("SELECT 1"));
});

test("a node that is writing is not removed before that has ended", async () => {
  const [one, other] = [await shared.node(), await shared.node()];
  await one.claim("target");
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const writing = one.fenced(async (transaction) => {
    await transaction.rows("SELECT 1");
    begun.resolve();
    await end.promise;
    await transaction.run("CREATE TABLE rollcall.written ()");
  });
  await begun.promise;
  await endLease(shared.postgres, one);
  expect(await other.claim("target")).toBe(false);
  end.resolve();
  await writing;
  expect(await other.claim("target")).toBe(true);
  expect(await shared.postgres.rows("SELECT FROM pg_tables WHERE tablename = 'written'")).toHaveLength(1);
});

test("what a process has begun with a lease it cannot end with the next one", async () => {
  const one = await shared.node();
  const begun = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const writing = thrown(
    one.fenced(async () => {
      begun.resolve();
      await end.promise;
    }),
  );
  await begun.promise;
  const joining = one.join();
  await expect.poll(() => shared.postgres.rows("SELECT FROM pg_locks WHERE NOT granted")).not.toHaveLength(0);
  end.resolve();
  await Promise.all([joining, writing]);
  // Its row went only after the write: that was still its own.
  const late = one.whileClaimed("target", async () => {
    await one.join();
    return one.id();
  });
  expect(await late).toBe(one.id());
  // The claim ended with the lease it was made with.
  expect(await names()).toEqual([]);
});

test("whoever waits for a claim gets it when it is free, or gives up waiting", async () => {
  const [one, other] = [await shared.node(), await shared.node()];
  const end = Promise.withResolvers<void>();
  const order: string[] = [];
  const first = one.whileClaimed("target", async () => {
    order.push("one begins");
    await end.promise;
    order.push("one ends");
  });
  await expect.poll(names).toEqual(["target"]);
  const second = other.whileClaimed("target", async () => order.push("other"));
  const impatient = await thrown(
    other.whileClaimed("target", async () => order.push("never"), AbortSignal.timeout(300)),
  );
  expect(impatient.message).toMatch(/abort|timeout/i);
  end.resolve();
  await Promise.all([first, second]);
  expect(order).toEqual(["one begins", "one ends", "other"]);
  expect(await names()).toEqual([]);
});

test("a claim that cannot be given back at once is given back later", async () => {
  const [one, other] = [await shared.node(2_000), await shared.node()];
  const blocker = Promise.withResolvers<void>();
  let blocking: Promise<void> | undefined;
  await one.whileClaimed("target", async () => {
    // The database lets nobody change it for a moment, and then ends what waits.
    blocking = shared.postgres.transaction(async (transaction) => {
      await transaction.run("LOCK TABLE rollcall.claims IN SHARE MODE");
      blocker.resolve();
      await expect
        .poll(() =>
          shared.postgres.rows("SELECT FROM pg_locks WHERE NOT granted AND relation = 'rollcall.claims'::regclass"),
        )
        .not.toHaveLength(0);
      await shared.postgres.rows("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted");
    });
    await blocker.promise;
  });
  await blocking;
  await expect.poll(names).toEqual([]);
  expect(await other.claim("target")).toBe(true);
});

test("a process that was stopped past its lease sends nothing when it goes on", async () => {
  const program = fileURLToPath(new URL("node-process.ts", import.meta.url));
  const child = spawn(process.execPath, [program, shared.url], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    let output = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await expect.poll(() => output).toContain("claimed");
    child.kill("SIGSTOP");
    const other = await shared.node();
    await expect.poll(() => other.claim("target")).toBe(true);
    child.kill("SIGCONT");
    await once(child, "exit");
    // It had the time of its lease to notice by its own clock alone.
    expect(output).toContain("checked: this process");
    expect(output).toContain("fenced: this process");
    expect(output).not.toContain("sent after");
  } finally {
    child.kill("SIGKILL");
  }
});

test("the time is the database's", async () => {
  const node = await shared.node();
  const [row] = await shared.postgres.rows<{ now: number }>(
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now",
  );
  expect(Math.abs(node.now() - (row?.now ?? 0))).toBeLessThan(5_000);
});
