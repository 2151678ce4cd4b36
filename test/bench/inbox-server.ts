import { createServer } from "node:http";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { text } from "node:stream/consumers";
import SCIMMY from "scimmy";
import { FolderInboxes } from "#state/folder/inbox.ts";
import { scimmyApp } from "../support/scimmy-app.ts";
import { serveInboxes, token } from "../support/inbox/served.ts";
import { listen } from "../support/scripted-server.ts";

/** A process of its own: a SCIM server that is pushed to. It prints its URL. */
export interface InboxServerRequest {
  readonly kind: "rollcall" | "scimmy" | "polis";
  /** For what it stores; of `polis`, where it is installed. */
  readonly folder: string;
  /** Of the database of `polis`. Absent: in memory. */
  readonly database?: string | undefined;
  /** How many users the inbox of Rollcall has before. */
  readonly users?: number | undefined;
}

if (import.meta.main) {
  const request = JSON.parse(process.argv[2] ?? "") as InboxServerRequest;
  const servers = { rollcall: serveRollcall, scimmy: serveScimmy, polis: servePolis };
  process.stdout.write(`${await servers[request.kind](request)}\n`);
}

/** As a daemon alone serves it, in its data folder. */
async function serveRollcall({ folder, users = 0 }: InboxServerRequest): Promise<string> {
  const inboxes = new FolderInboxes(folder);
  await inboxes.change("bench", { at: Date.now(), token: "bench" }, async (inbox) => {
    for (let user = 0; user < users; user++)
      await inbox.create("user", `id-${user}`, {
        schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"],
        userName: `there-${user}@example.com`,
        active: true,
        displayName: `Somebody ${user}`,
        name: { givenName: "Some", familyName: `Body ${user}` },
        emails: [{ value: `there-${user}@example.com`, type: "work", primary: true }],
      });
  });
  return (await serveInboxes(inboxes)).urlOf("bench");
}

/** As its README shows, with users in memory. */
async function serveScimmy(): Promise<string> {
  const users = new Map<string, Readonly<Record<string, unknown>>>();
  let last = 0;
  SCIMMY.Resources.declare(SCIMMY.Resources.User)
    .ingress((resource, data) => {
      const id = resource.id ?? String((last += 1));
      const user = { ...JSON.parse(JSON.stringify(data)), id } as Readonly<Record<string, unknown>>;
      users.set(id, user);
      return user as never;
    })
    .egress((resource) => {
      if (resource.id !== undefined) return users.get(resource.id) as never;
      const all = [...users.values()];
      return (resource.filter === undefined ? all : resource.filter.match(all)) as never;
    })
    .degress((resource) => void users.delete(resource.id ?? ""));
  const app = scimmyApp({
    handler: (request) => {
      if (request.headers.authorization !== `Bearer ${token}`) throw new Error("not with that token");
      return "bench";
    },
  });
  return `http://127.0.0.1:${await listen(createServer(app))}/scim/v2`;
}

interface Polis {
  readonly directorySyncController: {
    readonly directories: {
      create(options: object): Promise<{ data: { id: string; scim: { secret: string } } }>;
    };
    readonly requests: { handle(request: object): Promise<{ status: number; data: unknown }> };
  };
}

/** `@boxyhq/saml-jackson` behind Node's own HTTP server. */
async function servePolis({ folder, database }: InboxServerRequest): Promise<string> {
  process.env["DO_NOT_TRACK"] = "1";
  console.log = () => undefined;
  console.info = () => undefined;
  const entry = pathToFileURL(join(folder, "node_modules/@boxyhq/saml-jackson/dist/index.js"));
  const module = (await import(entry.href)) as { default: { default?: unknown } };
  const open = (module.default.default ?? module.default) as (options: object) => Promise<Polis>;
  const { directorySyncController: controller } = await open({
    externalUrl: "http://localhost:5225",
    samlAudience: "https://example.com",
    samlPath: "/api/oauth/saml",
    scimPath: "/api/scim/v2.0",
    db: database === undefined ? { engine: "mem" } : { engine: "sql", type: "postgres", url: database },
  });
  const { data: directory } = await controller.directories.create({
    tenant: "bench",
    product: "bench",
    type: "okta-scim-v2",
  });
  const handle = async (request: IncomingMessage): Promise<{ status: number; data: unknown }> => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost");
    const sent = await text(request);
    return controller.requests.handle({
      method: request.method,
      body: sent === "" ? undefined : JSON.parse(sent),
      directoryId: directory.id,
      apiSecret: directory.scim.secret,
      resourceType: "users",
      resourceId: pathname.split("/")[4],
      query: { filter: searchParams.get("filter") ?? undefined, count: 100, startIndex: 1 },
    });
  };
  const server = createServer((request, response) => {
    void (async () => {
      const { status, data } = await handle(request);
      response.writeHead(status, { "content-type": "application/scim+json" }).end(JSON.stringify(data));
    })();
  });
  return `http://127.0.0.1:${await listen(server)}/scim/v2`;
}
