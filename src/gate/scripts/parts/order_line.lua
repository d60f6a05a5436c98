local function order_line(order)
    return order.state .. ' ' .. order.units .. ' ' .. order.amount .. ' ' .. order.at .. ' ' .. order.pay_by .. ' ' ..
        order.nonce .. ' ' .. #order.buyer .. ' ' .. #order.key .. ' ' .. #order.ref .. ' ' .. order.buyer .. order.key ..
        order.ref
end
