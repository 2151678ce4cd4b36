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
