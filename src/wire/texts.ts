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
