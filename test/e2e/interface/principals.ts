import { call, post } from "../../support/rollcall/service.ts";
import type { Answer } from "../../support/rollcall/service.ts";

/** A principal as `user/sync` takes it. */
export interface Submitted {
  readonly name: string;
  readonly displayName: string;
  readonly principalTypeEnum: "LOCAL_USER" | "LOCAL_GROUP";
  readonly password?: string;
  readonly groupNames?: readonly string[];
}

export function user(name: string, groupNames: readonly string[] = []): Submitted {
  return {
    name,
    displayName: `User ${name}`,
    principalTypeEnum: "LOCAL_USER",
    password: `${name}'s password`,
    groupNames,
  };
}

export function group(name: string, groupNames: readonly string[] = []): Submitted {
  return { name, displayName: `Group ${name}`, principalTypeEnum: "LOCAL_GROUP", groupNames };
}

export function list(url: string, session: string): Promise<Answer> {
  return call(`${url}/tspublic/v1/user/list`, { session });
}

/** Makes the principals of the service those of the list. */
export async function sync(url: string, session: string, principals: readonly Submitted[]): Promise<void> {
  const form = { applyChanges: "true", principals: JSON.stringify(principals) };
  const answer = await post(`${url}/tspublic/v1/user/sync`, form, { session });
  if (answer.status !== 200) throw new Error(`user/sync: ${answer.status} ${answer.text}`);
}

/** Makes the service's only user beside the administrator. */
export function createUser(
  url: string,
  session: string,
  { name, password }: { name: string; password: string },
): Promise<void> {
  return sync(url, session, [{ ...user(name), password }]);
}
