-- change: all that a seller sets, as the ledger has it under a version. ARGV: run, epoch, version, nine terms, paused, closed.
--@include whole
--@include terms_read
if #ARGV ~= 14 then return { 'BAD_INPUT' } end
local version_new, given = whole(ARGV[3], 1, 9007199254740991), terms_read(4)
local paused_new, closed_new = whole(ARGV[13], 0, 1), whole(ARGV[14], 0, 1)
if not (version_new and given and paused_new and closed_new) then return { 'BAD_INPUT' } end
--@include open
if version_new <= version then return { 'REPEATED', now, available } end
--@include add_up
price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max, late_payment = unpack(given)
paused, closed, version = paused_new, closed_new, version_new
--@include closed
-- Who found it over a moment ago has let its keys expire.
if not is_closed then
    for i = 1, #KEYS do redis.call('PERSIST', KEYS[i]) end
end
--@include save_terms
--@include save
return { 'DONE', now, available }
