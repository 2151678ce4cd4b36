import { z } from "zod";

/** The `code` of an error of family B (B.1): for 400, for 403, and for everything else. */
export const errorCodes = { badRequest: 10_002, forbidden: 10_003, other: 10_000 } as const;

/** The body of an error of family B (B.1). `debug` is a string that holds a JSON array of strings. */
export const errorBody = z.object({
  code: z.int(),
  incident_id_guid: z.guid(),
  trace_id_guid: z.guid(),
  debug: z.string(),
});
export type ErrorBody = z.infer<typeof errorBody>;

/** The headers of every answer of family B (specification 4.2, B.10). The time is in microseconds. */
export const serviceHeaders = {
  incident: "x-service-incident-id",
  trace: "x-service-trace-id",
  time: "x-service-request-time-us",
  address: "x-service-ip",
} as const;

/** The texts that family A answers with (specification 7; A.2, A.3, A.4, A.6, A.9, A.13, A.25). */
export const dataTexts = {
  ping: "Ping Received.",
  unverified: "Unable to verify user. Please login again.",
  forbidden: "User does not have required privileges. Please contact your administrator.",
  noAuthentication: "error code = INTERNAL, message = Couldn't resolve the authentication service.",
  noTable: "Unable to find table. Cannot load data.",
  noFile: "There is no file in the request: expected multipart/form-data with a part that has a filename.",
  uploadComplete: "Upload Complete.",
  commitMade: "Commit load cycle request made.",
  invalidStart: (body: string) => `Invalid input params for starting data load: ${body}`,
  unknownCycle: (id: string) => `Cycle_id=[${id}] does not exist.`,
  notAccepting: (id: string) => `Cycle_id=[${id}] is not accepting data.`,
  unknownCommit: (id: string) => `Commit load cycle failed. Error ending load. Unknown cycle_id '${id}'`,
  noBadRecords: (id: string) => `Node does not exist: /tmp/${id}.bad_record`,
} as const;
