--@include state
if is_open == 0 then return { 'LOADING', run, epoch, now } end
if ARGV[2] ~= '' and ARGV[2] ~= epoch then return { 'STALE', run, epoch, now } end
--@include clock
