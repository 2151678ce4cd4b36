import express from "express";
import type { Express } from "express";
import { SCIMMYRouters } from "scimmy-routers";

/**
 * What the library serves (RFC 7644), below `/scim/v2`.
 * @param authentication `handler` finds out who asks, and throws for whom it does not know
 */
export function scimmyApp(
  authentication: Omit<ConstructorParameters<typeof SCIMMYRouters>[0] & object, "type">,
): Express {
  const app = express();
  // The library writes into the query, which newer versions of Express create anew at each access.
  app.use((request, _, next) => {
    Object.defineProperty(request, "query", { value: { ...request.query }, writable: true });
    next();
  });
  app.use("/scim/v2", new SCIMMYRouters({ type: "bearer", ...authentication }));
  return app;
}
