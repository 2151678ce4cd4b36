import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { GoogleFaults } from "../../support/google/directory.ts";
import { refusals } from "../../support/google/directory.ts";
import { scopes } from "../../support/google/server.ts";
import { googleMedium } from "./google-medium.ts";
import type { GoogleProvision } from "./google-medium.ts";
import { sourceSuite } from "./suite.ts";
import type { Fault } from "./suite.ts";

const wrong = (name: string, faults: GoogleFaults, message: RegExp): Fault<GoogleProvision> => ({
  name,
  inject: async ({ server }) => void Object.assign(server.faults, faults),
  message,
});

sourceSuite(
  googleMedium({
    faults: {
      before: [
        {
          name: "the key is gone",
          inject: ({ folder }) => rm(join(folder, "key.json")),
          message: /^key: key\.json (?:does not exist|cannot be read)/,
        },
        {
          name: "the key is not one of a service account",
          inject: ({ folder }) => writeFile(join(folder, "key.json"), '{"installed": {}}'),
          message: /key: key\.json has no valid type; expected the JSON key of a service account/,
        },
        {
          name: "nobody answers",
          inject: ({ server }) => server.close(),
          message: /connection refused|refuses|ECONNREFUSED/i,
        },
        {
          name: "a scope is not delegated",
          inject: async ({ server }) => {
            server.delegated.delete(scopes.groups);
            server.revoke();
          },
          message:
            /unauthorized_client.*give the client ID 104857600000000000001 these scopes: \S+user\.readonly,\S+group\.readonly/,
        },
        {
          name: "the subject is no administrator",
          inject: async ({ server }) => server.admins.clear(),
          message: /403 \(forbidden: Not Authorized.*the subject admin@example\.com must be an administrator/,
        },
        wrong(
          "the API is turned off",
          { answers: ({ what }) => (what === "token" ? undefined : refusals.disabled) },
          /turn on the Admin SDK API/,
        ),
        wrong("users come with ids alone", { onlyIds: true }, /a user without an address, which every user has/),
        wrong("users come as others see them", { publicView: true }, /a user without suspended/),
        wrong("there are no users", { empties: "users" }, /0 users; there is at least admin@example\.com/),
        wrong("members are missing", { empties: "members" }, /directMembersCount is \d+, and there are 0 members/),
        wrong("a group has more members than come", { countOff: 1 }, /directMembersCount is \d+, and there are/),
        wrong("groups have no counts", { noCounts: true }, /the group has no directMembersCount/),
        wrong(
          "the service is unavailable",
          { answers: ({ what }) => (what === "users" ? refusals.backendError : undefined) },
          /backendError: The service is currently unavailable\.\) \(tried 2 times\)/,
        ),
        wrong(
          "one list is refused",
          { answers: ({ what }) => (what === "members" ? refusals.forbidden : undefined) },
          /403/,
        ),
        wrong(
          "a proxy answers",
          {
            answers: ({ what }) => (what === "users" ? { status: 200, body: "<html>Please log in</html>" } : undefined),
          },
          /JSON/,
        ),
        wrong(
          "the status says success, and the answer is an error",
          { answers: ({ what }) => (what === "users" ? { ...refusals.backendError, status: 200 } : undefined) },
          /the answer is not a list of users/,
        ),
        wrong(
          "an answer is cut",
          {
            answers: ({ what }) =>
              what === "users" ? { status: 200, body: '{"kind": "admin#directory#users"', isCut: true } : undefined,
          },
          /tried 2 times/,
        ),
      ],
      during: [
        {
          name: "the service becomes unavailable",
          inject: async ({ server }) =>
            void Object.assign(server.faults, { answers: () => refusals.backendError } satisfies GoogleFaults),
          message: /503 \(backendError/,
          advice: "retry",
        },
        {
          name: "the connection is cut for good",
          inject: ({ server }) => server.close(),
          message: /127\.0\.0\.1/,
          advice: "retry",
        },
        {
          name: "the right to read is withdrawn",
          inject: async ({ server }) => {
            server.revoke();
            server.delegated.clear();
          },
          message: /401 \(unauthorized_client/,
          advice: "fix",
        },
        {
          name: "the role shrinks",
          inject: async ({ server }) => {
            let left = 12_000;
            Object.assign(server.faults, { covers: () => left-- > 0 } satisfies GoogleFaults);
          },
          message: /0 users; there is at least/,
          advice: "fix",
        },
      ],
    },
  }),
);
