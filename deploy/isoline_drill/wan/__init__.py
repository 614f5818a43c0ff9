"""A wide-area network between regions on one machine: delay, loss, one-way cuts, isolation. Two ways, one interface (``base``).

``namespaces`` gives every region a network namespace and routes between them: real packets, real silence. It needs root and a TUN device.
``proxies`` puts a delaying TCP proxy before every cross-region connection: needs nothing, and knows nothing below TCP.
"""
