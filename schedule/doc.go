// Package schedule computes firing times: at the times of a cron expression, at a fixed
// interval, or once, in a time zone and with a policy for the days on which clocks change
// (semantics §4).
//
// # Contract
//
// Parse reports mistakes with their place and a hint, and a Schedule that Parse returned never
// fails. A Schedule is immutable and safe for concurrent use. The package is pure: it never asks for
// the present, draws no chance and starts nothing, so equal calls give equal results. Its only
// outside input is the rules of a zone, which Parse looks up by name; a program that
// imports time/tzdata has them on every machine.
//
// Every time that comes out is a whole second in the schedule's zone, between the years 1 and 9999.
// Next is strictly increasing: feeding its result back visits every firing once. Its work is
// bounded: it looks at most 41 years ahead, which is enough for every expression that fires at all
// (the rarest, a leap day on a certain weekday, has gaps of up to 40 years).
//
// # Cron expressions
//
// Five fields (minute, hour, day of month, month, day of week), or six with the second first:
//
//	second          0-59
//	minute          0-59
//	hour            0-23
//	day of month    1-31, L (last day), L-3 (three days before it), 15W (the weekday nearest the
//	                15th, in the same month), LW (last weekday)
//	month           1-12 or JAN-DEC
//	day of week     0-7 or SUN-SAT (0 and 7 are Sunday), 5L or FRIL (last Friday of the month),
//	                1#2 or MON#2 (second Monday of the month)
//
// Each takes *, a value, a range 1-5, a step */15 or 8-18/2 or 5/10 (from 5 to the end), and lists of
// these. Names may be in any case. The two day fields also take ?, which is *. When both are
// restricted a day that fits either of them counts, as in Vixie cron, and as there a field that
// begins with * (also */2) is not restricted: then a day has to fit both.
//
// Also @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every_minute and
// @every 1h30m (see Spec.Every). @reboot is refused: nothing here is ever rebooted.
//
// # When clocks change
//
// A time of the clock can be missing (spring forward) or come twice (fall back). By default a
// missing time fires once, right after the gap, and a time that comes twice fires the first time. An
// expression that runs in every hour of the day ("*/5 * * * *", "30 * * * *") needs neither: it simply goes on
// at its pace, in both of the doubled hours and with nothing added after a gap; Vixie
// cron does so too, and otherwise a job of every five minutes would be silent for an hour. Spec.Skipped and
// Spec.Repeated, when set, hold for every expression as they say. Intervals count elapsed time and do
// not notice.
//
// # Why no library
//
// robfig/cron, netresearch/go-cron, gronx and hashicorp/cronexpr were measured against every change of clocks of all
// zones from 2025 to 2027: each of them skips days, fires twice, or takes a change to be a whole hour. netresearch/go-cron
// 0.9.1, which promises to follow Vixie cron, still fails where clocks move by 30 minutes (Australia/Lord_Howe).
//
// Stability: experimental until version 1.
package schedule
