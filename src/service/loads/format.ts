/** How the rows of a load are written: specification 2.2 with every default filled in. Booleans and texts as the client gave them. */
export interface LoadFormat {
  readonly type: "csv" | "delimited";
  /** One Unicode character. */
  readonly fieldSeparator: string;
  readonly trailingFieldSeparator: boolean;
  /** One Unicode character or empty: none. Only for csv. */
  readonly enclosingCharacter: string;
  /** One Unicode character or empty: none. Only for delimited. */
  readonly escapeCharacter: string;
  readonly nullValue: string;
  readonly hasHeaderRow: boolean;
  readonly flexible: boolean;
  /** Decided by A.18, for csv: true means that DATE and datetime columns hold epoch seconds. Always false for delimited. */
  readonly convertedToEpoch: boolean;
  /** strptime formats. */
  readonly dateTimeFormat: string;
  readonly dateFormat: string;
  readonly timeFormat: string;
  readonly skipSecondFraction: boolean;
  /** The mark before the fraction of a second; `.` unless the client says otherwise (A.19). */
  readonly secondFractionStart: string;
  readonly useBitValues: boolean;
  readonly trueFormat: string;
  readonly falseFormat: string;
}
