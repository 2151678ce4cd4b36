/** The `scimType` of an error (RFC 7644, 3.12; RFC 9865 for cursors). */
export type ScimType =
  | "invalidFilter"
  | "tooMany"
  | "uniqueness"
  | "mutability"
  | "invalidSyntax"
  | "invalidPath"
  | "noTarget"
  | "invalidValue"
  | "invalidVers"
  | "sensitive"
  | "invalidCursor"
  | "expiredCursor"
  | "invalidCount";

/** A request that is refused, and changes nothing. */
export class ScimError extends Error {
  readonly status: number;
  readonly scimType: ScimType | undefined;
  /** In seconds. */
  readonly retryAfter: number | undefined;

  constructor(status: number, detail: string, scimType?: ScimType, retryAfter?: number) {
    super(detail);
    this.status = status;
    this.scimType = scimType;
    this.retryAfter = retryAfter;
  }
}

export function invalid(scimType: ScimType, detail: string): ScimError {
  return new ScimError(400, detail, scimType);
}
