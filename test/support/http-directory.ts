import type { Socket } from "node:net";
import fastify from "fastify";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { track } from "./scripted-server.ts";

/** A person as an HR system or a directory knows them. */
export interface Person {
  readonly id: string;
  readonly login: string;
  readonly name: string;
  readonly mail?: string | undefined;
  readonly department?: string | undefined;
}

export interface Team {
  readonly id: string;
  readonly name: string;
  readonly about?: string | undefined;
  /** The id of the team above. */
  readonly parent?: string | undefined;
  readonly members: readonly { readonly id: string; readonly kind: "user" | "group" }[];
}

/** What can be changed while a server runs. */
export interface HttpCompany {
  people: readonly Person[];
  teams: readonly Team[];
}

/** What such services have been seen to do; each is one that looks like success, or like a moment's trouble. */
export type Fault =
  /** A full page without a link to the next: once, or always. */
  | "forgets the link once"
  | "forgets the link"
  /** The link to the next page stays the same, so that it is one page for ever. */
  | "repeats the link"
  | "leads to another host"
  /** A mask that leaves out the field for paging. */
  | "has no field for the next page"
  | "has its total on the first page only"
  | "has no total"
  | "has another total on each page"
  /** In the midst of a list: throttling that lasts, and throttling that ends. */
  | "answers 503"
  | "answers 503 once"
  | "answers 403"
  | "answers an error with 200"
  | "answers a page of HTML"
  /** Properties that the account may not read. */
  | "gives nothing but ids"
  /** A role that hides people, and the counts with them or not. */
  | "hides the last tenth"
  /** The server's own limit is lower than what was asked for. */
  | "has pages of 50 at most"
  /** Records that the account may not see are taken out after the page was made. */
  | "has short pages"
  | "has an empty page in the midst"
  /** The same records on two pages. */
  | "repeats a record"
  | "ends an answer early"
  | "breaks off"
  /** Somebody is hired, or leaves, between two pages. */
  | "hires between pages"
  | "loses somebody between pages";

export interface HttpDirectory {
  readonly url: string;
  readonly company: HttpCompany;
  readonly faults: Set<Fault>;
  /** Methods and paths with queries, in order. */
  readonly requests: string[];
  readonly open: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** What the services below want to see. */
export const credentials = {
  basic: { username: "ISU_Rollcall@acme", password: "integration-password" },
  key: "bamboo-api-key-0123456789",
  client: { clientId: "rollcall", clientSecret: "client-secret-of-rollcall" },
  token: "a-token-that-nobody-may-see",
} as const;

/** The lists of a company, in the forms of some services (below a path each) and in a plain one. */
export async function startHttpDirectory(company: HttpCompany): Promise<HttpDirectory> {
  const faults = new Set<Fault>();
  const requests: string[] = [];
  const app = fastify({ forceCloseConnections: true });
  const open = track(app.server);
  app.addHook("onRequest", async ({ method, url }) => void requests.push(`${method} ${url}`));
  app.addContentTypeParser("application/x-www-form-urlencoded", { parseAs: "string" }, (_, body, done) =>
    done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
  const where = { app, company, faults, requests };
  plain(where);
  workday(where);
  bamboo(where);
  personio(where);
  bob(where);
  keycloak(where);
  const address = await app.listen({ host: "127.0.0.1", port: 0 });
  return { url: address, company, faults, requests, open, close: () => app.close() };
}

interface Where {
  readonly app: FastifyInstance;
  readonly company: HttpCompany;
  readonly faults: Set<Fault>;
  readonly requests: string[];
}

/** Answers what is wrong with a request, if anything is. @returns whether it has answered */
function refused({ faults }: Where, request: FastifyRequest, reply: FastifyReply, expected: string): boolean {
  if (request.headers.authorization !== expected) {
    void reply.code(401).send({ error: "unauthorized", error_description: `not ${request.headers.authorization}` });
    return true;
  }
  const isLater = [...new URL(request.url, "http://localhost").searchParams].some(
    ([name, value]) => ["page", "offset", "first", "after", "cursor"].includes(name) && !["", "0", "1"].includes(value),
  );
  const isOne = !/page|offset|first|after|cursor/.test(request.url);
  if (!isLater && !isOne) return false;
  if (faults.delete("answers 503 once")) void reply.code(503).header("retry-after", "0").send();
  else if (faults.has("answers 503")) void reply.code(503).header("retry-after", "0").send();
  else if (faults.has("answers 403"))
    void reply.code(403).send({ error: { code: "Forbidden", message: "no rights to this list" } });
  else if (faults.has("answers an error with 200")) void reply.send({ error: { code: "TooManyRequests" } });
  else if (faults.has("answers a page of HTML")) void reply.type("text/html").send("<html>Sign in</html>");
  else if (faults.has("ends an answer early"))
    void reply.type("application/json").send('{"data": {"list": [{"id": "1"}, {"id"');
  else if (faults.has("breaks off")) {
    reply.hijack();
    reply.raw.writeHead(200, { "content-type": "application/json", "content-length": 1000 }).write('[{"id"');
    setImmediate(() => reply.raw.destroy());
  } else return false;
  return true;
}

/** The part of a list that a page shows, with what the faults do to it. */
function slice(
  { faults, company }: Where,
  list: readonly object[],
  start: number,
  size: number,
): { readonly items: readonly object[]; readonly total: number; readonly end: number; readonly hasMore: boolean } {
  if (start > 0 && faults.delete("hires between pages"))
    company.people = [{ id: "900001", login: "new", name: "New" }, ...company.people];
  if (start > 0 && faults.delete("loses somebody between pages")) company.people = company.people.slice(1);
  const all = faults.has("hides the last tenth") ? list.slice(0, Math.floor(list.length * 0.9)) : list;
  const most = faults.has("has pages of 50 at most") ? Math.min(size, 50) : size;
  const end = start + most;
  let items: readonly object[] = all.slice(start, end);
  if (faults.has("has short pages")) items = items.filter((_, index) => (start + index) % 7 !== 3);
  if (faults.has("has an empty page in the midst") && start === most) items = [];
  if (faults.has("repeats a record") && start > 0) items = [...all.slice(0, 1), ...items];
  if (faults.has("gives nothing but ids"))
    items = items.map((item) =>
      Object.fromEntries(Object.entries(item).map(([name, value]) => [name, name === "id" ? value : null])),
    );
  const total = list.length + (faults.has("has another total on each page") ? start : 0);
  return { items, total, end, hasMore: end < all.length };
}

const number = (value: unknown, fallback: number): number => (value === undefined ? fallback : Number(value));

/** People by a link in the body, teams by a cursor in it, members by number of page, all with totals; one by id; pairs in CSV. */
function plain(where: Where): void {
  const { app, company, faults } = where;
  const expected = `Bearer ${credentials.token}`;
  const guarded = (
    path: string,
    answer: (
      request: FastifyRequest<{ Params: { id: string }; Querystring: Record<string, string | undefined> }>,
      reply: FastifyReply,
    ) => object | string | undefined,
  ): void => {
    app.get<{ Params: { id: string }; Querystring: Record<string, string | undefined> }>(
      `/plain${path}`,
      async (request, reply) => {
        if (refused(where, request, reply, expected)) return reply;
        const found = answer(request, reply);
        return found === undefined ? reply.code(404).send({ error: "none" }) : found;
      },
    );
  };
  const totals = (total: number, start: number): object =>
    faults.has("has no total") || (faults.has("has its total on the first page only") && start > 0) ? {} : { total };
  const linked = (path: string, list: () => readonly object[]): void =>
    guarded(path, ({ query }) => {
      const [start, size] = [number(query["after"], 0), number(query["limit"], 100)];
      const page = slice(where, list(), start, size);
      const forgets = start > 0 && (faults.delete("forgets the link once") || faults.has("forgets the link"));
      const after = faults.has("repeats the link") && start > 0 ? start : page.end;
      const host = faults.has("leads to another host") ? "https://elsewhere.example.com" : "";
      const next = page.hasMore && !forgets ? `${host}/plain${path}?after=${after}&limit=${size}` : null;
      const paging = faults.has("has no field for the next page")
        ? {}
        : { next, cursor: next === null ? null : `${after}` };
      return { data: { list: page.items }, meta: { ...totals(page.total, start), ...paging } };
    });
  const people = (): readonly object[] =>
    company.people.map(({ id, login, name, mail }) => ({
      id,
      login,
      name,
      contact: { mail },
      secret: "hunter2-is-secret",
    }));
  const teams = (): readonly object[] =>
    company.teams.map(({ id, name, about, members }) => ({ id, name, about: about ?? null, size: members.length }));
  linked("/people", people);
  linked("/teams", teams);
  // As some services have it: an object per line, the rest by the Link header, in either order.
  guarded("/people.ndjson", ({ query }, reply) => {
    const start = number(query["after"], 0);
    const list = query["order"] === "desc" ? people().toReversed() : people();
    const page = slice(where, list, start, 100);
    const next = `</plain/people.ndjson?after=${page.end}${query["order"] === "desc" ? "&order=desc" : ""}>; rel="next"`;
    if (page.hasMore) void reply.header("link", next);
    void reply.type("application/x-ndjson");
    return page.items.map((item) => `${JSON.stringify(item)}\n`).join("");
  });
  guarded("/people/count", () => `${company.people.length}`);
  guarded("/people/:id", ({ params }) => people().find((one) => "id" in one && one.id === params.id));
  guarded("/teams/:id", ({ params }) => teams().find((one) => "id" in one && one.id === params.id));
  guarded("/teams/:id/members", ({ params, query }) => {
    const members = company.teams.find(({ id }) => id === params.id)?.members ?? [];
    const page = slice({ ...where, faults: new Set() }, members, (number(query["page"], 1) - 1) * 200, 200);
    return { members: page.items };
  });
  guarded("/memberships", (_, reply) => {
    void reply.type("text/csv");
    const rows = company.teams.flatMap(({ id, members }) =>
      members.map((member) => `"${id}",${member.kind},"${member.id}"`),
    );
    return `\uFEFFteam,kind,member\r\n${rows.join("\r\n")}\r\n`;
  });
}

/** Workday's reports as a service: one answer, in JSON or CSV. */
function workday(where: Where): void {
  const { app, company } = where;
  const { username, password } = credentials.basic;
  const expected = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  app.get<{ Params: { report: string }; Querystring: { format?: string } }>(
    "/ccx/service/customreport2/acme/ISU_Rollcall/:report",
    async (request, reply) => {
      if (refused(where, request, reply, expected)) return reply;
      const workers = company.people.map(({ id, login, name, mail, department }) => ({
        Employee_ID: id,
        User_Name: login,
        Preferred_Name: name,
        ...(mail !== undefined && { primaryWorkEmail: mail }),
        Cost_Center: department ?? "",
      }));
      const organisations = company.teams.map(({ id, name, about }) => ({
        Organization_ID: id,
        Name: name,
        About: about ?? "",
      }));
      const memberships = company.teams.flatMap(({ id, members }) =>
        members.map((member) => ({
          Organization_ID: id,
          Member_ID: member.id,
          Type: member.kind === "user" ? "Worker" : "Organization",
        })),
      );
      const { report } = request.params;
      const lists = { Workers: workers, Organizations: organisations, Memberships: memberships };
      const rows: readonly object[] = lists[report as keyof typeof lists] ?? [];
      const { items } = slice(where, rows, 0, rows.length);
      if (request.query.format === "json") return { Report_Entry: items };
      const names = Object.keys(rows[0] ?? {});
      const cell = (value = ""): string => `"${value.replaceAll('"', '""')}"`;
      const lines = items.map((item) => names.map((name) => cell((item as Record<string, string>)[name])).join(","));
      return reply.type("text/csv").send(`${names.join(",")}\n${lines.join("\n")}\n`);
    },
  );
}

/** BambooHR's directory: one answer; an API key as the user's name, with any password. */
function bamboo(where: Where): void {
  where.app.get("/api/gateway.php/acme/v1/employees/directory", async (request, reply) => {
    const { authorization = "" } = request.headers;
    const [user] = Buffer.from(authorization.replace(/^Basic /, ""), "base64")
      .toString()
      .split(":", 1);
    if (refused(where, request, reply, user === credentials.key ? authorization : "the key")) return reply;
    const employees = where.company.people.map(({ id, login, name, mail, department }) => ({
      id,
      displayName: name,
      preferredName: null,
      workEmail: mail ?? `${login}@acme.example.com`,
      department: department ?? null,
    }));
    return { fields: [{ id: "displayName", type: "text", name: "Display name" }], employees };
  });
}

/** Personio's employees (v1): by offset, at most 100 at a time and 50 unless asked for, with a total. */
function personio(where: Where): void {
  const { app, company } = where;
  tokens(app, "/v2/auth/token");
  app.get<{ Querystring: { offset?: string; limit?: string } }>("/v1/company/employees", async (request, reply) => {
    if (refused(where, request, reply, `Bearer ${credentials.token}`)) return reply;
    const size = Math.min(number(request.query.limit, 50), 100);
    const start = number(request.query.offset, 0);
    const page = slice(where, company.people, start, size);
    const field = (label: string, value: unknown): object => ({ label, value: value ?? null });
    const data = page.items.map((item) => {
      const { id, login, name, mail, department } = item as Person;
      const attributes = {
        id: field("ID", Number(id)),
        email: field("Email", mail ?? `${login}@acme.example.com`),
        preferred_name: field("Name", name),
        department: field(
          "Department",
          department === undefined ? null : { type: "Department", attributes: { id: 1, name: department } },
        ),
        status: field("Status", "active"),
      };
      return { type: "Employee", attributes };
    });
    const metadata = {
      total_elements: page.total,
      current_page: start / size,
      total_pages: Math.ceil(page.total / size),
    };
    return { success: true, metadata, offset: start, limit: size, data };
  });
}

/** HiBob: a search by POST in one answer, and bulk lists by cursor, at most 200 at a time. */
function bob(where: Where): void {
  const { app, company } = where;
  const { username, password } = credentials.basic;
  const expected = `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
  app.post<{ Body: { fields?: readonly string[] } }>("/v1/people/search", async (request, reply) => {
    if (refused(where, request, reply, expected)) return reply;
    const { fields = [] } = request.body;
    return {
      employees: company.people.map(({ id, login, name, mail, department }) => {
        const all = {
          id,
          displayName: name,
          email: mail ?? `${login}@acme.example.com`,
          "work.department": department ?? null,
        };
        return Object.fromEntries(Object.entries(all).filter(([field]) => field === "id" || fields.includes(field)));
      }),
    };
  });
  app.get<{ Querystring: { cursor?: string; limit?: string } }>(
    "/v1/bulk/people/employment",
    async (request, reply) => {
      if (refused(where, request, reply, expected)) return reply;
      const size = number(request.query.limit, 50);
      if (size > 200) return reply.code(400).send({ error: "limit: at most 200" });
      const start = number(request.query.cursor, 0);
      const page = slice(where, company.people, start, size);
      const next = page.hasMore && !(where.faults.has("forgets the link") && start > 0) ? `${page.end}` : null;
      const results = page.items.map((item) => ({ employeeId: (item as Person).id, name: (item as Person).name }));
      return { results, response_metadata: { next_cursor: next } };
    },
  );
}

/** Keycloak's admin API: `first` and `max` (100 unless asked for), a count of users alone, groups below groups by request. */
function keycloak(where: Where): void {
  const { app, company } = where;
  tokens(app, "/realms/acme/protocol/openid-connect/token");
  const listed = (path: string, list: (id: string) => readonly object[]): void => {
    app.get<{ Params: { id: string }; Querystring: { first?: string; max?: string } }>(
      `/admin/realms/acme${path}`,
      async (request, reply) => {
        if (refused(where, request, reply, `Bearer ${credentials.token}`)) return reply;
        const { first, max } = request.query;
        return slice(where, list(request.params.id), number(first, 0), number(max, 100)).items;
      },
    );
  };
  const user = ({ id, login, name, mail }: Person): object => ({
    id,
    username: login,
    firstName: name,
    email: mail,
    enabled: true,
  });
  const below = (parent: string | undefined): readonly object[] =>
    company.teams
      .filter((team) => team.parent === parent)
      .map(({ id, name }) => ({
        id,
        name,
        ...(parent !== undefined && { parentId: parent }),
        subGroupCount: company.teams.filter((team) => team.parent === id).length,
        subGroups: [],
      }));
  listed("/users", () => company.people.map(user));
  app.get("/admin/realms/acme/users/count", async (request, reply) =>
    refused({ ...where, faults: new Set() }, request, reply, `Bearer ${credentials.token}`)
      ? reply
      : reply.send(company.people.length),
  );
  app.get<{ Params: { id: string } }>("/admin/realms/acme/users/:id", async (request, reply) => {
    if (refused({ ...where, faults: new Set() }, request, reply, `Bearer ${credentials.token}`)) return reply;
    const found = company.people.find(({ id }) => id === request.params.id);
    return found === undefined ? reply.code(404).send({ error: "User not found" }) : user(found);
  });
  listed("/groups", () => below(undefined));
  listed("/groups/:id/children", (id) => below(id));
  listed("/groups/:id/members", (id) => {
    const members = new Set(company.teams.find((team) => team.id === id)?.members.map((member) => member.id));
    return company.people.filter((person) => members.has(person.id)).map(user);
  });
}

function tokens(app: FastifyInstance, path: string): void {
  const { clientId, clientSecret } = credentials.client;
  const header = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`;
  app.post<{ Body: Record<string, string> }>(path, async ({ headers, body }, reply) => {
    const isKnown =
      headers.authorization === header || (body["client_id"] === clientId && body["client_secret"] === clientSecret);
    if (!isKnown || body["grant_type"] !== "client_credentials")
      return reply.code(401).send({ error: "unauthorized_client", error_description: "Invalid client or credentials" });
    return { access_token: credentials.token, token_type: "Bearer", expires_in: 300 };
  });
}
