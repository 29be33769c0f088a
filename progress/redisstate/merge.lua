-- Brings the hash of a project to the state of the store.
-- KEYS: smap:proj:{id}
-- ARGV: 1 create ("1" or ""), 2 status, 3 total, 4 done and 5 errors by the store itself, 6 done and 7 errors by other programs,
--       8 revision of status and total, 9 epoch, 10 time to live in seconds, 11 touch ("1" or "")
-- The fields sql_done and sql_errors say how much of done and errors came from the store: the rest is other programs'. They, rev and
-- epoch are missing while they have their first values, so that a new project has the four fields that everybody knows.
-- Answers status, total, done, errors, sql_done, sql_errors, epoch and "1" if this call has found the finish line;
-- NOT_FOUND alone where there is no hash and none is to be created.
local key = KEYS[1]
local h = redis.call('HMGET', key, 'status', 'total', 'done', 'errors', 'sql_done', 'sql_errors', 'rev', 'epoch')
local function number(i) return tonumber(h[i] or '0') or 0 end
local function text(n) return string.format('%.0f', n) end
local status, total, done, errors = h[1] or '', number(2), number(3), number(4)
local sqlDone, sqlErrors, rev, epoch = number(5), number(6), tonumber(h[7] or '1') or 1, number(8)
local ownDone, ownErrors, otherDone, otherErrors = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local newRev, newEpoch = tonumber(ARGV[8]), tonumber(ARGV[9])
local there = h[1] or h[2] or h[3] or h[4]
local changed, finished = ARGV[11] == '1', ''
local function set(...)
    redis.call('HSET', key, ...)
    changed = true
end
local function answer()
    return {status, text(total), text(done), text(errors), text(sqlDone), text(sqlErrors), text(epoch), finished}
end

if not there and ARGV[1] ~= '1' then
    return {'NOT_FOUND'}
end
if there and newEpoch < epoch then -- a late writer of before a reset
    return answer()
end
if not there or newEpoch > epoch then
    redis.call('DEL', key)
    status, total, epoch = ARGV[2], tonumber(ARGV[3]), newEpoch
    done, errors, sqlDone, sqlErrors = ownDone + otherDone, ownErrors + otherErrors, ownDone, ownErrors
    set('status', status, 'total', ARGV[3], 'done', text(done), 'errors', text(errors))
    if sqlDone > 0 then set('sql_done', ARGV[4]) end
    if sqlErrors > 0 then set('sql_errors', ARGV[5]) end
    if newRev ~= 1 then set('rev', ARGV[8]) end
    if epoch ~= 0 then set('epoch', ARGV[9]) end
else
    -- Counts only rise: by what the store has counted since, or to what it knows where the server has less.
    local function raise(field, now, sql, own, other)
        if own > sql then
            set('sql_' .. field, text(own))
        end
        local most = math.max(own, sql)
        local want = math.max(now + most - sql, most + other)
        if want > now then
            redis.call('HINCRBY', key, field, text(want - now))
            changed = true
        end
        return want, most
    end
    done, sqlDone = raise('done', done, sqlDone, ownDone, otherDone)
    errors, sqlErrors = raise('errors', errors, sqlErrors, ownErrors, otherErrors)
    if newRev > rev or not h[1] or not h[2] then
        total = tonumber(ARGV[3])
        if not (status == 'DONE' and total > 0 and done >= total) then -- not out of DONE
            status = ARGV[2]
        end
        set('status', status, 'total', ARGV[3], 'rev', ARGV[8])
    end
end
if total > 0 and done >= total and status ~= 'CRAWLING' and status ~= 'DONE' then
    status, finished = 'DONE', '1'
    set('status', status)
end
if changed or done - sqlDone > otherDone or errors - sqlErrors > otherErrors or redis.call('TTL', key) < 0 then
    redis.call('EXPIRE', key, ARGV[10])
end
return answer()
