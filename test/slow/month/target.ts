import { administrator, call, login, post, startService } from "../../support/rollcall/service.ts";
import type { TestService } from "../../support/rollcall/service.ts";
import { startProxy } from "../../support/proxy.ts";
import type { Proxy } from "../../support/proxy.ts";
import type { Principal, Principals } from "./oracle.ts";

/** The company's analytics service: a process of its own, which may die and come back, always at one address. */
export interface CompanyService {
  /** Where it is. */
  readonly url: string;
  /** Everybody it has. */
  list(): Promise<Principals>;
  /** Somebody changes it by hand: it has the principals that `change` makes of those it has. */
  byHand(change: (principals: readonly Principal[]) => readonly Principal[]): Promise<void>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts it again with what it had. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

interface Listed {
  readonly name: string;
  readonly displayName: string;
  readonly description?: string;
  readonly mail?: string;
  readonly principalTypeEnum: "LOCAL_USER" | "LOCAL_GROUP";
  readonly groupNames: readonly string[];
}

/** @param data its data folder */
export async function startCompanyService(data: string): Promise<CompanyService> {
  let service: TestService | undefined = await startService({ data });
  const proxy: Proxy = await startProxy(service.url);
  const session = (): Promise<string> => login(proxy.url);
  const list = async (): Promise<Principal[]> => {
    const { status, text } = await call(`${proxy.url}/tspublic/v1/user/list`, { session: await session() });
    if (status !== 200) throw new Error(`user/list: ${status} ${text}`);
    return (JSON.parse(text) as Listed[]).map(
      ({ name, displayName, description, mail, principalTypeEnum, groupNames }) => ({
        kind: principalTypeEnum === "LOCAL_USER" ? "user" : "group",
        name,
        displayName,
        description,
        mail: mail === "" ? undefined : mail,
        groups: groupNames.toSorted(),
      }),
    );
  };
  return {
    url: proxy.url,
    list: async () => new Map((await list()).map((principal) => [`${principal.kind} ${principal.name}`, principal])),
    byHand: async (change) => {
      const principals = change(await list()).map(({ kind, groups, ...rest }) => ({
        ...rest,
        principalTypeEnum: kind === "user" ? "LOCAL_USER" : "LOCAL_GROUP",
        groupNames: groups,
      }));
      const form = {
        applyChanges: "true",
        remoteDeleted: "true",
        defaultPassword: administrator.password,
        principals: JSON.stringify(principals),
      };
      const { status, text } = await post(`${proxy.url}/tspublic/v1/user/sync`, form, { session: await session() });
      if (status !== 200) throw new Error(`user/sync: ${status} ${text}`);
    },
    kill: async () => {
      proxy.cut();
      await service?.kill();
      service = undefined;
    },
    start: async () => {
      service = await startService({ data });
      proxy.forward(service.url);
    },
    stop: async () => {
      await service?.stop();
      await proxy.close();
    },
  };
}
