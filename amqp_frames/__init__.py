"""amqp_frames"""
