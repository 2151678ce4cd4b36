import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import SCIMMY from "scimmy";
import { scimmyApp } from "../scimmy-app.ts";
import { listen, stop, track } from "../scripted-server.ts";

type Stored = Record<string, unknown> & { readonly id: string };

/** The SCIM server that the library makes (RFC 7644), with a store in memory. One in a process. */
export async function startScimmy() {
  const users = new Map<string, Stored>();
  const groups = new Map<string, Stored>();
  SCIMMY.Resources.User.extend(SCIMMY.Schemas.EnterpriseUser);
  declare(SCIMMY.Resources.User as never, users, "userName");
  declare(SCIMMY.Resources.Group as never, groups, "displayName");
  const token = "t0ken-of-the-library";
  const app = scimmyApp({
    handler: (request) => {
      if (request.headers.authorization !== `Bearer ${token}`) throw new Error("Not with that token");
      return "writer";
    },
  });
  const server = createServer(app);
  const open = track(server);
  const port = await listen(server);
  return { url: `http://127.0.0.1:${port}/scim/v2`, token, users, groups, close: () => stop(server, open) };
}

interface Declared {
  ingress(handler: (resource: { id?: string }, data: Record<string, unknown>) => Promise<Stored>): Declared;
  egress(
    handler: (resource: { id?: string; filter?: { match(all: Stored[]): Stored[] } }) => Promise<Stored[] | Stored>,
  ): Declared;
  degress(handler: (resource: { id: string }) => Promise<void>): Declared;
}

function declare(type: never, store: Map<string, Stored>, name: string): void {
  const none = (id: string): Error => new SCIMMY.Types.Error(404, null as never, `Resource ${id} not found`);
  SCIMMY.Resources.declare(type);
  (type as Declared)
    .ingress(async ({ id }, data) => {
      if (id !== undefined && !store.has(id)) throw none(id);
      const same = [...store.values()].find(
        (each) => each.id !== id && String(each[name]).toLowerCase() === String(data[name]).toLowerCase(),
      );
      if (same !== undefined) throw new SCIMMY.Types.Error(409, "uniqueness", `${name} is taken`);
      const stored = { ...(JSON.parse(JSON.stringify(data)) as Record<string, unknown>), id: id ?? randomUUID() };
      store.set(stored.id, stored);
      return stored;
    })
    .egress(async ({ id, filter }) => {
      const all = [...store.values()];
      if (id === undefined) return filter === undefined ? all : filter.match(all);
      const found = store.get(id);
      if (found === undefined) throw none(id);
      return found;
    })
    .degress(async ({ id }) => {
      if (!store.delete(id)) throw none(id);
    });
}
