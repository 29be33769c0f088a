// What every page asks for.
import { askSoon } from "../api/client"
import { me } from "../me"
import { approvals } from "../screens/approvals/decide"

/** shared asks for what the frame shows. */
export const shared = () => Promise.all([askSoon(me), askSoon(approvals)])
