/** What family A answers as plain text (specification 7; A.2, A.9, A.25). */
export const dataTexts = {
  ping: "Ping Received.",
  unverified: "Unable to verify user. Please login again.",
  forbidden: "User does not have required privileges. Please contact your administrator.",
  noAuthentication: "error code = INTERNAL, message = Couldn't resolve the authentication service.",
} as const;
