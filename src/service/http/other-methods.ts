import type { FastifyInstance } from "fastify";
import type { Route } from "#wire/routes.ts";
import { HttpError } from "./answers.ts";

/** Answers 405 where one of the routes has the path, with another method. */
export function refuseOtherMethods(app: FastifyInstance, root: string, routes: Readonly<Record<string, Route>>): void {
  for (const [path, there] of Map.groupBy(Object.values(routes), (route) => route.path)) {
    const allowed: readonly string[] = there.map((route) => route.method);
    app.route({
      method: app.supportedMethods.filter((method) => !allowed.includes(method)),
      url: root + path,
      handler: () => {
        const list = allowed.join(", ");
        throw new HttpError(405, [`The method is not allowed here, only ${list}.`], { headers: { allow: list } });
      },
    });
  }
}
