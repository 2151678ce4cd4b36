import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Company } from "./company.ts";
import type { Medium, Provision } from "./suite.ts";

/** A company in an HR system that answers over HTTP, as the example of `connectors/README.md` reads it. */
export interface HrProvision extends Provision {
  /** Answers every request from now on, until it says that it did not. */
  readonly intercept: (answer: (request: IncomingMessage, response: ServerResponse) => boolean) => void;
  /** Changes the directory. */
  readonly touch: () => void;
  readonly stop: () => Promise<void>;
}

const pageSize = 500;
const token = "a-token-that-nobody-may-see";

export function hrMedium(faults: Medium<HrProvision>["faults"]): Medium<HrProvision> {
  return {
    name: "the example of connectors/README.md",
    module: new URL("hr.ts", import.meta.url).href,
    attributes: { login: "login", displayName: "name", mail: "mail", name: "name", description: "about" },
    faults,
    large: { users: 40_000, heap: 24 },
    async provision(company) {
      let lists = listsOf(company);
      let revision = 1;
      let inFlight = 0;
      let answer: Parameters<HrProvision["intercept"]>[0] = () => false;
      const server = createServer((request, response) => {
        inFlight++;
        response.once("close", () => inFlight--);
        if (answer(request, response)) return;
        if (request.headers.authorization !== `Bearer ${token}`) {
          response.writeHead(401).end();
          return;
        }
        const url = new URL(request.url ?? "/", "http://localhost");
        const items = lists[url.pathname] ?? [];
        const end = Number(url.searchParams.get("page")) * pageSize;
        const body = { revision: `${revision}`, total: items.length, items: items.slice(end - pageSize, end) };
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const stop = async (): Promise<void> => {
        if (!server.listening) return;
        server.close();
        server.closeAllConnections();
        await once(server, "close");
      };
      return {
        options: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, token },
        folder: "/",
        secrets: [token],
        async rename(number, login) {
          const users = company.users.map((user) => (user.number === number ? { ...user, login } : user));
          lists = listsOf({ ...company, users });
        },
        held: async () => inFlight,
        dispose: stop,
        intercept: (by) => {
          answer = by;
        },
        touch: () => {
          revision++;
        },
        stop,
      };
    },
  };
}

function listsOf({ users, groups }: Company): Readonly<Record<string, readonly object[]>> {
  const numbers = new Map(groups.map((group) => [group.name, group.number]));
  const teams = (names: readonly string[]) => names.map((name) => numbers.get(name));
  return {
    "/people": users.map(({ number, login, displayName, mail, groups }) => ({
      id: number,
      login,
      name: displayName,
      mail,
      teams: teams(groups),
    })),
    "/teams": groups.map(({ number, name, description, groups }) => ({
      id: number,
      name,
      about: description,
      teams: teams(groups),
    })),
  };
}
