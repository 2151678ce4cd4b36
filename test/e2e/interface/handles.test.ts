import { once } from "node:events";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { login } from "../../support/rollcall/service.ts";
import { into, loadingOf, startLoadService } from "./loading.ts";
import { list, sync, user } from "./principals.ts";

test("idle connections do not take the handles that uploads, commits and syncs need", async () => {
  const loads = await startLoadService({ shell: "ulimit -n 256" });
  onTestFinished(() => loads.end());
  const { hostname, port } = new URL(loads.url);
  const idle: Socket[] = [];
  const open = async (): Promise<void> => {
    const socket = connect(Number(port), hostname).on("error", () => undefined);
    idle.push(socket);
    await once(socket, "connect");
    if (idle.length % 2 === 0) {
      socket.write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
      // It is closed before that when there are too many.
      await Promise.race([once(socket, "data"), once(socket, "close")]);
    }
  };
  for (let count = 0; count < 600; count++) await open();
  const session = await login(loads.url);
  const own = loadingOf(loads.url, session);
  for (let round = 0; round < 5; round++) {
    for (let count = 0; count < 20; count++) await open();
    expect(await own.load(into(), "1,one\n", "2,two\n")).toMatchObject({ rows_written: "2", status: { code: "OK" } });
    await sync(loads.url, session, [user("ada"), user(`ben ${round}`)]);
    expect((await list(loads.url, session)).status).toBe(200);
  }
  for (const socket of idle) socket.destroy();
});
